"""The state of a job's alerts as a function of its newest closed records. Pure functions.

Nothing about an alert is stored: a sink that starts, and `elf get alerts`, compute its state from the results
log. Each combination of a row's group keys is an alert of its own. The computation begins with "ok"
`LOOKBACK` times as many intervals ago as FOR or RESOLVE AFTER states, so the earlier records do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from elfmesh import ql
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.errors import QueryError
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.row_json import rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.ql.engine import live
    from elfmesh.ql.expressions.alert_clause import AlertClause
    from elfmesh.ql.lowering import alerts as clause
else:
    live = lazy_module("elfmesh.ql.engine.live")
    clause = lazy_module("elfmesh.ql.lowering.alerts")

LOOKBACK = 8
LABELS_MAX = 1000
"""Maximum number of combinations of labels of a record for which a condition counts as true."""

OK, PENDING, FIRING = "ok", "pending", "firing"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AlertVerdict:
    """What a record says about an alert.

    Attributes:
        index: number of its interval.
        start_us, end_us: bounds of the interval.
        true: the labels for which the condition is true.
        known: whether it is false for all other labels; otherwise the record changes nothing for them.
        intervals: number of intervals that the record represents.
    """

    index: int
    start_us: int
    end_us: int
    true: frozenset[Labels]
    known: bool
    intervals: int = 1


@dataclass(frozen=True, slots=True)
class AlertState:
    """State of an alert for one combination of labels.

    Attributes:
        since_us: start of the first interval of those in which the condition is true.
        changed_us: end of the interval in which it began to fire.
        trues, falses: number of intervals, up to now, in which the condition was true or false.
    """

    state: str = OK
    since_us: int = 0
    changed_us: int = 0
    trues: int = 0
    falses: int = 0


@dataclass(frozen=True, slots=True)
class JobAlert:
    """An alert of a job, with what its evaluation needs.

    Attributes:
        keys: columns whose values are the labels.
        rises: whether a condition that is true for a partial record stays true for the whole one.
    """

    clause: AlertClause
    keys: tuple[str, ...]
    rises: bool

    @property
    def lookback(self) -> int:
        """Return the number of newest intervals that determine the state."""
        return LOOKBACK * max(self.clause.lasting, self.clause.resolve)

    def verdict(self, record: ResultRecord, rows: pa.Table) -> AlertVerdict:
        """Return what a closed record and its rows say."""
        start_us, end_us = record.start_us or 0, record.end_us or 0
        intervals = record.index - record.first + 1
        whole = record.state == "FINAL"
        evaluated = whole or (record.state == "FINAL_PARTIAL" and (self.clause.partial or self.rises))
        true: frozenset[Labels] = frozenset()
        known = whole or (record.state == "FINAL_PARTIAL" and self.clause.partial)
        if evaluated:
            try:
                true = self._true(rows)
            except QueryError:  # rows of a version whose columns have other types
                known = False
        return AlertVerdict(record.index, start_us, end_us, true, known, intervals)

    def _true(self, table: pa.Table) -> frozenset[Labels]:
        if not table.num_rows:
            return frozenset()
        shown = self.keys or tuple(table.column_names[:1])
        statement = live.parse_live(self.clause.query(shown))
        found = rows_to_json(live.evaluate(statement, {"results": table}).slice(0, LABELS_MAX))
        return frozenset(tuple((name, _text(row[name])) for name in self.keys) for row in found)

    def states(self, verdicts: Sequence[AlertVerdict]) -> dict[Labels, AlertState]:
        """Return the state after the last of some consecutive records, for labels that are not "ok"."""
        found: dict[Labels, AlertState] = {}
        for verdict in self._newest(verdicts):
            for labels in (*found, *(verdict.true - found.keys())):
                after = self._after(found.get(labels, AlertState()), verdict, labels in verdict.true)
                if after.state == OK:
                    found.pop(labels, None)
                else:
                    found[labels] = after
        return found

    def _newest(self, verdicts: Sequence[AlertVerdict]) -> Iterable[AlertVerdict]:
        last = verdicts[-1].index if verdicts else 0
        return (each for each in verdicts if each.index > last - self.lookback)

    def _after(self, before: AlertState, verdict: AlertVerdict, true: bool) -> AlertState:
        if not true and not verdict.known:
            return before
        if true:
            if verdict.intervals > 1:  # no member had a record in the earlier intervals
                before = self._false(before, verdict.intervals - 1)
            since_us = before.since_us if before.trues or before.state == FIRING else verdict.start_us
            trues = before.trues + 1
            fires = before.state == FIRING or trues >= self.clause.lasting
            changed_us = before.changed_us if before.state == FIRING else verdict.end_us
            return AlertState(FIRING if fires else PENDING, since_us, changed_us if fires else 0, trues)
        return self._false(before, verdict.intervals)

    def _false(self, before: AlertState, intervals: int) -> AlertState:
        falses = before.falses + intervals
        if before.state != FIRING or falses >= self.clause.resolve:
            return AlertState()
        return AlertState(FIRING, before.since_us, before.changed_us, 0, falses)


@lru_cache(maxsize=64)
def alerts_of(text: str) -> tuple[JobAlert, ...]:
    """Return the alerts of a job's text. Raises QueryError if the text is invalid."""
    statement = ql.parse(text)
    if statement.job is None:
        return ()
    keys = ql.key_columns(statement) or ()
    return tuple(JobAlert(each, keys, clause.can_only_rise(statement, each)) for each in statement.job.alerts)


def unevaluated_since(verdicts: Sequence[AlertVerdict]) -> int | None:
    """Return the start of the first of the newest records that change nothing, None if there is none."""
    since_us = None
    for verdict in reversed(verdicts):
        if verdict.known:
            break
        since_us = verdict.start_us
    return since_us


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)

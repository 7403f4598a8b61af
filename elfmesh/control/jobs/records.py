"""The record of an interval, and the JSON object of it that the commands print.

Owns the count buckets and the record. `elf run`, the results log, the API and the Spark bridge use it. The
formats of its rows are in `ql.values`: JSON (row_json.py) and Arrow IPC streams (plain_ipc.py).

Invariants: a record in the results log is terminal (D-17). Its `index` is the number of the interval
(`floor(start_us / slide_us)`). `counts` contains every bucket of `BUCKETS` (D-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from elfmesh.ql.values.row_json import iso_us, rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa

BUCKETS = (
    "contributed", "filtered", "parse_error", "late_dropped", "expired", "source_gap", "shed",
    "spool_overflow", "function_error",
)  # fmt: skip
"""Buckets in which records are counted (D-1); messages contain the counts as a list in this order.

`source_gap` counts losses and not records, because no agent has read the lost bytes. `function_error` counts
records for which a Python function of the job failed.
"""

CONTRIBUTED, FILTERED, PARSE_ERROR, LATE, EXPIRED, SOURCE_GAP, SHED, OVERFLOW, FUNCTION_ERROR = range(
    len(BUCKETS)
)
"""Position of each bucket in such a list."""

ASSUMPTION_BROKEN, BROKEN = "assumption_broken", len(BUCKETS)
"""Violations of the job's ASSUME clauses, and their position in a list of counts. A list without violations
ends before, and has the form that earlier releases know. They are no records: these are in another bucket."""

COUNTS_MAX = BROKEN + 1

BUCKETS_SHOWN = BUCKETS[:4]
"""Buckets that the JSON of a result always has; others are present if they are not zero."""

UNUSABLE = ("parse_error", "function_error")
"""Buckets of unusable records; a rollout is taken back if their share grows."""

FIRST = -(2**62)
"""Number of the interval before all others: founding members contribute from here."""

NOT_COUNTED = (0,) * len(BUCKETS)

State = Literal["TENTATIVE", "FINAL", "FINAL_PARTIAL", "SKIPPED", "EARLY"]
"""State of a record: terminal except TENTATIVE and EARLY, which is in no log."""

LOSSES = (*BUCKETS[LATE:], ASSUMPTION_BROKEN)
"""Counts that make a record unclean: its rows may depend on when and where its records were read."""

LOST = "lost"
"""Prefix of the reason of a record that replaces lost records."""

PAO = "pao"
"""The view of a result that contains its partial aggregates."""


class Partly(msgspec.Struct, frozen=True, array_like=True):
    """Records of a missing member that a record contains: those that it had read up to `until_us`.

    A standby of the member has sent them. `number` is the member's number on the roster.
    """

    number: int
    agent: str
    until_us: int
    contributed: int
    filtered: int


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision of one interval of one job, without its rows.

    Attributes:
        job: "namespace/name", or "run" for the embedded engine.
        index: number of the interval.
        start_us: start of the window in microseconds UTC; None for a query without a window.
        end_us: exclusive end of the window.
        state: state of the interval; all but TENTATIVE are terminal.
        rev: revision, 1 for the first publication; grows within an epoch.
        completeness: agents_in / agents_expected.
        fidelity: share of the expected input that is inside.
        agents_in: number of roster members whose contribution is inside.
        agents_expected: number of expected roster members.
        missing: names of the expected agents that are not inside, sorted.
        version: manifest version of all contributions.
        epoch: epoch of the master that closed the interval.
        counts: records per bucket of `BUCKETS`, and violations in ASSUMPTION_BROKEN if there are any.
        absent: bitmap of all roster numbers given so far whose contribution is not inside.
        revs: (roster number, revision) of each contribution inside that replaced an earlier one.
        partly: prefixes of missing members that are inside.
        since: first interval of the run that the record represents: all intervals lack the same agents, and
            no member inside has records for those before `index`. None: only `index`.
        open: groups that are open after the interval, while it is the newest one; logs do not store them.
        before: index of the previous record in the job's log, so that a reader notices a missing record.
            None: the record is the first one, or of an earlier release.
        reason: why there is no result; "" if there is one.
        clean: False if a record that was read is not clean, or an early row is withdrawn; see `is_clean`.
        early: of a job with EARLY, unless the record is clean: the early rows `emitted` in `epoch`.
        withdrawn: early rows of this epoch that are not among the rows, by their stable columns.
        counted: names of the agents that the rows of an EARLY line count.
        growing: columns of an EARLY line that are lower bounds.
    """

    job: str
    index: int
    start_us: int | None = None
    end_us: int | None = None
    state: State = "FINAL"
    rev: int = 1
    completeness: float = 1.0
    fidelity: float = 1.0
    agents_in: int = 1
    agents_expected: int = 1
    missing: list[str] = []
    version: int = 1
    epoch: int = 0
    counts: dict[str, int] = {}
    absent: bytes = b""
    revs: tuple[tuple[int, int], ...] = ()
    since: int | None = None
    open: bytes = b""
    before: int | None = None
    reason: str = ""
    clean: bool = True
    early: dict[str, int] = {}
    withdrawn: list[dict[str, Any]] = []
    counted: list[str] = []
    growing: list[str] = []
    partly: tuple[Partly, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether another run over the same logs has the same rows, if its record is clean too."""
        losses = any(self.counts.get(name) for name in LOSSES)
        return self.clean and self.state == "FINAL" and self.completeness == 1.0 and not losses

    @property
    def lost(self) -> bool:
        """Whether it replaces final records that are damaged at every agent that stored them."""
        return self.state == "SKIPPED" and self.reason.startswith(LOST)

    @property
    def first(self) -> int:
        return self.index if self.since is None else self.since


def lost_record(job: str, start: int, stop: int, window: tuple[int, int] | None = None) -> ResultRecord:
    """Return the record that replaces the lost records of the intervals [start, stop) in a log.

    Args:
        job: "namespace/name".
        start: first interval.
        stop: one past the last interval.
        window: window of the last interval in microseconds UTC, if it is known.
    """
    index = stop - 1
    start_us, end_us = window or (None, None)
    return ResultRecord(
        job=job, index=index, start_us=start_us, end_us=end_us, state="SKIPPED", completeness=0.0,
        fidelity=0.0, agents_in=0, agents_expected=0, since=None if start in (index, FIRST) else start,
        reason=f"{LOST}: damaged on disk, and no agent that votes on the job has it",
    )  # fmt: skip


def counts_dict(counts: Sequence[int]) -> dict[str, int]:
    """Return counts by name of bucket, from the list form of messages."""
    names = (*BUCKETS, ASSUMPTION_BROKEN)[: max(BROKEN, len(counts))]
    return dict(zip(names, counts, strict=True))


def counts_list(counts: Mapping[str, int]) -> tuple[int, ...]:
    """Return the list form of counts; the inverse of `counts_dict`."""
    broken = counts.get(ASSUMPTION_BROKEN)
    return (*(counts.get(name, 0) for name in BUCKETS), *([broken] if broken else []))


def add_counts(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of lists of counts."""
    total = [0] * COUNTS_MAX
    for part in parts:
        for at, value in enumerate(part):
            total[at] += value
    return tuple(total if total[BROKEN] else total[:BROKEN])


def with_late(counts: Mapping[str, int], late: int) -> dict[str, int]:
    """Return counts with contributed records that turned out to be late.

    Members count a record before the root knows that its group has ended.
    """
    moved = {"contributed": -late, "late_dropped": late} if late else {}
    return {**counts, **{name: counts[name] + change for name, change in moved.items()}}


def with_broken(counts: Mapping[str, int], broken: int) -> dict[str, int]:
    """Return counts with violations of ASSUME that the root has found."""
    return {**counts, **({ASSUMPTION_BROKEN: counts.get(ASSUMPTION_BROKEN, 0) + broken} if broken else {})}


def to_json(record: ResultRecord, table: pa.Table, part: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """Return the JSON object of one interval that the commands print; `encode_json` makes it a line.

    `part` is the number of the page of rows in the table, from 1, and the number of pages.
    """
    counts = {
        name: record.counts.get(name, 0)
        for name in (*BUCKETS, ASSUMPTION_BROKEN)
        if name in BUCKETS_SHOWN or record.counts.get(name)
    }
    agents: dict[str, Any] = {"in": record.agents_in, "expected": record.agents_expected}
    interval = {"index": record.index, "start": iso_us(record.start_us), "end": iso_us(record.end_us)}
    if record.since is not None:
        interval["since"] = None if record.since <= FIRST else record.since
    head = {"job": record.job, "interval": interval, "state": record.state, "rev": record.rev}
    if record.state == "EARLY":
        about = {"version": record.version, "epoch": record.epoch, "growing": list(record.growing)}
        return (
            head | {"agents": agents | {"from": list(record.counted)}} | about | {"rows": rows_to_json(table)}
        )
    return {
        **head,
        "completeness": record.completeness,
        "fidelity": record.fidelity,
        "agents": agents | {"missing": list(record.missing)} | _partly(record),
        "version": record.version,
        "counts": counts,
        **({"reason": record.reason} if record.reason else {}),
        **({"clean": False, "early": dict(record.early)} if record.early else {}),
        **({"withdrawn": list(record.withdrawn)} if record.withdrawn else {}),
        **({"part": part[0], "parts": part[1]} if part[1] > 1 else {}),
        "rows": rows_to_json(table),
    }


def _partly(record: ResultRecord) -> dict[str, Any]:
    if not record.partly:
        return {}
    found = [
        {"agent": each.agent, "until": iso_us(each.until_us), "records": each.contributed + each.filtered}
        for each in record.partly
    ]
    return {"partly": found}

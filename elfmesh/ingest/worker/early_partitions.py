"""Hot table of the early rows of SEALED: the partitions that are sealed here, beside the panes (EARLY).

Owns which partitions an agent reports to the master, and with which states. A partition is reported as soon
as the agent has read a seal of it, with all its groups in each open interval; and again whenever it changes.

Invariants: as those of `early`. A message has whole partitions, so that the newest message about a partition
replaces the earlier ones.

Paper: Blazes III (sealing; independent seals).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from elfmesh.cbt import Content, Panes, TypeConflict, encode_partial
from elfmesh.cbt.partial.contents import all_rows
from elfmesh.cbt.rows import Rows, combine, combine_numbered
from elfmesh.errors import DataError
from elfmesh.ingest.worker.early import (
    GROUPS_MAX,
    MESSAGE_BYTES_MAX,
    VALUES_MAX,
    WINDOWS_MAX,
    Batches,
    EarlyStates,
)
from elfmesh.ql import Statement
from elfmesh.ql.engine.open_groups import owners
from elfmesh.ql.engine.sealed import partitions_of, rows_of_partitions
from elfmesh.ql.plan.statement import MAIN, SEALS, TableSpec


@dataclass(slots=True)
class _Interval:
    """States of one interval by table; `changed` has the rows of records and of seals that are to be sent."""

    tables: dict[str, Rows] = field(default_factory=dict)
    changed: dict[str, np.ndarray] = field(default_factory=dict)
    skipped: int = 0
    failed: bool = False

    def add(self, name: str, rows: Rows, most: int) -> None:
        """Add rows of a table. Raises DataError if their types do not fit."""
        known = self.tables.get(name)
        merged, ids = combine_numbered([rows] if known is None else [known, rows])
        changed = np.zeros(merged.count, bool)
        before = self.changed.get(name, changed[:0])
        changed[: len(before)] = before
        changed[ids[-1]] = True
        if name == MAIN:
            self.skipped = max(self.skipped, merged.count - most)
        # The first rows stay: with fewer records than its producers state, a partition has no early row.
        self.changed[name] = changed[:most]
        self.tables[name] = merged if merged.count <= most else merged.slice(0, most)

    def touched(self, width: int) -> Rows | None:
        """Return the partitions with changes."""
        found = {
            name: self.tables[name].take(places)
            for name in (MAIN, SEALS)
            if len(places := np.flatnonzero(self.changed.get(name, ())))
        }
        return partitions_of(width, found) if found else None

    def sent(self, keys: tuple[str, ...], partitions: Rows) -> None:
        """Note that partitions were sent."""
        for name in (MAIN, SEALS):
            if name in self.tables:
                self.changed[name][owners(keys, partitions, self.tables[name]) >= 0] = False


class SealedWindows:
    """Hot tables of one job with SEALED and EARLY, by one version.

    Args:
        statement: the job.
        seed: seed of the tables of keys.
    """

    def __init__(self, statement: Statement, seed: int = 0, groups_max: int = GROUPS_MAX) -> None:
        window, seal = statement.window, statement.plan.seal
        assert window is not None
        assert seal is not None
        self._keys, self._width = statement.tables[0].keys, len(seal.keys)
        self._most = {MAIN: groups_max, SEALS: groups_max}
        tables = [TableSpec(own.name, own.keys, own.aggregates) for own in statement.tables]
        self._recent = Panes(tables, window.pane_us, seed=seed)
        self._intervals: dict[int, _Interval] = {}

    @property
    def nbytes(self) -> int:
        held = (rows.nbytes for each in self._intervals.values() for rows in each.tables.values())
        return self._recent.nbytes + sum(held)

    def insert(self, batches: Batches) -> None:
        """Add rows that the panes have taken. Types that do not fit those of earlier rows are left out."""
        try:
            self._recent.insert_all(batches)
        except DataError:
            for index in {pane for panes, _ in batches.values() for pane in panes.tolist()}:
                self._intervals[index] = _Interval(failed=True)

    def drop_below(self, index: int) -> None:
        for each in [each for each in self._intervals if each < index]:
            del self._intervals[each]
        self._recent.drop_below(index)

    def take(self, start: int, stop: int | None, members: int) -> list[EarlyStates]:
        """Return the changed states of the partitions of which this agent has read a seal.

        Arguments as those of `EarlyWindows.take`; the number of members changes nothing here.
        """
        for pane in self._recent.panes():
            if pane >= start and (stop is None or pane < stop):
                self._add(pane, self._content(pane))
        if panes := self._recent.panes():
            self._recent.drop_below(panes[-1] + 1)
        there = [each.tables[SEALS] for each in self._intervals.values() if SEALS in each.tables]
        if not there:
            return []
        sealed = combine([partitions_of(self._width, {SEALS: each}) for each in there])
        left, found = MESSAGE_BYTES_MAX, list[EarlyStates]()
        for index in sorted(self._intervals):
            if left > 0 and (states := self._states(index, sealed, left)) is not None:
                found.append(states)
                left -= len(states.payload)
        return found

    def _content(self, pane: int) -> Mapping[str, Content]:
        try:
            return self._recent.window(pane) or {}
        except TypeConflict:
            return {}

    def _add(self, index: int, contents: Mapping[str, Content]) -> None:
        if index not in self._intervals and len(self._intervals) >= WINDOWS_MAX:
            return
        interval = self._intervals.setdefault(index, _Interval())
        try:
            for name, content in contents.items() if not interval.failed else ():
                if (rows := all_rows(content)).count:
                    interval.add(name, rows, self._most.get(name, VALUES_MAX))
        except DataError:
            self._intervals[index] = _Interval(failed=True)

    def _states(self, index: int, sealed: Rows, bytes_max: int) -> EarlyStates | None:
        interval, keys = self._intervals[index], self._keys[: self._width]
        touched = interval.touched(self._width)
        if touched is None:
            return None
        left = touched.take(np.flatnonzero(owners(keys, sealed, touched) >= 0))
        count = left.count
        while count:
            chosen = left.slice(0, count)
            tables = rows_of_partitions(self._keys, self._width, interval.tables, chosen, inside=True)
            payload = encode_partial(tables)
            if len(payload) <= bytes_max:
                interval.sent(keys, chosen)
                return EarlyStates(index, payload, interval.skipped)
            if count > 1:
                count //= 2
            elif bytes_max < MESSAGE_BYTES_MAX:
                return None
            else:  # a partition that no message can carry
                interval.sent(keys, chosen)
                interval.skipped += 1
                left = left.slice(1, left.count)
                count = left.count
        return None

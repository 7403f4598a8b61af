"""Hot table of early rows: the states of the groups of open windows, beside the panes (EARLY).

Owns which groups an agent reports to the master, and with which states. The batches that the panes have taken
feed it. It is in memory only, and a restarted agent fills it again, because it reads the open windows again.

Invariants: a state is made of records of its window that the panes contain, so that it never exceeds what the
agent contributes. A window has at most `GROUPS_MAX` groups here; later groups wait for the final record, and
are counted. A message has at most `MESSAGE_BYTES_MAX`; groups without room are in the next one.

Paper: Blazes III (confluent paths). Local thresholds: Cormode et al., SIGMOD 2006.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from elfmesh.cbt import Content, Panes, TypeConflict, encode_partial
from elfmesh.cbt.partial.contents import all_rows
from elfmesh.cbt.rows import Rows, combine_numbered, within_groups
from elfmesh.errors import DataError
from elfmesh.ql import Statement
from elfmesh.ql.engine.early import EarlyCondition
from elfmesh.ql.plan.directions import local_having
from elfmesh.ql.plan.early import early_parts
from elfmesh.ql.plan.statement import MAIN, TableSpec

GROUPS_MAX = 100_000
"""Maximum number of groups of a window; a bound of the agent's memory."""

VALUES_MAX = 4 * GROUPS_MAX
"""Maximum number of rows of a table of distinct values."""

MESSAGE_BYTES_MAX = 64 << 10
WINDOWS_MAX = 64
"""Maximum number of open windows with a hot table; further ones wait for their final records."""

Batches = Mapping[str, tuple[np.ndarray, pa.RecordBatch]]


@dataclass(slots=True)
class _Window:
    """States of one window by table; `changed` has the groups (rows of the main table) to examine."""

    tables: dict[str, Rows] = field(default_factory=dict)
    changed: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    skipped: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class EarlyStates:
    """States of some groups of an interval, as a partial; `skipped` groups had no room in the hot table."""

    interval: int
    payload: bytes
    skipped: int


class EarlyWindows:
    """Hot tables of one job, by one version.

    Args:
        statement: a job with EARLY.
        seed: seed of the tables of keys.
    """

    def __init__(self, statement: Statement, seed: int = 0, groups_max: int = GROUPS_MAX) -> None:
        self._parts = list[_PartWindows]()
        tables = iter(statement.tables)
        for part in early_parts(statement):
            # By the statement's names of its tables, the names that its part has.
            names = {next(tables).name: own.name for own in part.tables}
            self._parts.append(_PartWindows(statement, part, names, seed, groups_max))

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def insert(self, batches: Batches) -> None:
        """Add rows that the panes have taken. Types that do not fit those of earlier rows are left out."""
        for part in self._parts:
            part.insert(batches)

    def drop_below(self, index: int) -> None:
        for part in self._parts:
            part.drop_below(index)

    def take(self, start: int, stop: int | None, members: int) -> list[EarlyStates]:
        """Return the states of changed groups that have reached their local threshold.

        Args:
            start: first open interval.
            stop: one past the last interval of this version; None: there is no last one.
            members: number of agents that share the thresholds.
        """
        found = list[EarlyStates]()
        for part in self._parts:
            left = MESSAGE_BYTES_MAX - sum(len(each.payload) for each in found)
            found += part.take(start, stop, members, left)
        return found


class _PartWindows:
    """Hot tables of one part. `names` has the part's name of each table by the statement's."""

    def __init__(
        self, statement: Statement, part: Statement, names: Mapping[str, str], seed: int, groups_max: int
    ) -> None:
        window = statement.window
        assert window is not None
        self._part, self._names, self._groups_max = part, names, groups_max
        # A message has the statement's names, which tell the sides of UNION ALL apart.
        self._sent = {own: name if len(statement.parts) > 1 else own for name, own in names.items()}
        self._window_us, self._slide_us = window.size_us, window.slide_us
        self._size, self._slide = window.size_us // window.pane_us, window.slide_us // window.pane_us
        tables = [TableSpec(own.name, own.keys, own.aggregates) for own in part.tables]
        self._recent = Panes(tables, window.pane_us, seed=seed)
        self._windows: dict[int, _Window] = {}
        self._members, self._condition = 0, EarlyCondition(part, None)

    @property
    def nbytes(self) -> int:
        held = (rows.nbytes for each in self._windows.values() for rows in each.tables.values())
        return self._recent.nbytes + sum(held)

    def insert(self, batches: Batches) -> None:
        own = {self._names[name]: each for name, each in batches.items() if name in self._names}
        try:
            self._recent.insert_all(own)
        except DataError:
            for pane in set(own[MAIN][0].tolist()) if MAIN in own else ():
                self._fail(pane)

    def drop_below(self, index: int) -> None:
        for each in [each for each in self._windows if each < index]:
            del self._windows[each]
        self._recent.drop_below(index * self._slide)

    def take(self, start: int, stop: int | None, members: int, left: int) -> list[EarlyStates]:
        """Return states as `EarlyWindows.take`, of at most `left` bytes."""
        for pane in self._recent.panes():
            for index, window in self._of_pane(pane, start, stop):
                self._add(window, self._content(pane), index)
        if panes := self._recent.panes():
            self._recent.drop_below(panes[-1] + 1)
        if members != self._members:  # with a lower threshold, groups that have not changed may reach it
            self._members = members
            self._condition = EarlyCondition(self._part, local_having(self._part, members))
            for window in self._windows.values():
                window.changed[:] = True
        found = list[EarlyStates]()
        for index in sorted(self._windows):
            if (states := self._states(index, self._windows[index], left)) is not None:
                found.append(states)
                left -= len(states.payload)
        return found

    def _content(self, pane: int) -> dict[str, Content]:
        try:
            return self._recent.window(pane) or {}
        except TypeConflict:
            return {}

    def _of_pane(self, pane: int, start: int, stop: int | None) -> list[tuple[int, _Window]]:
        """Return the open windows that contain a pane."""
        last = pane // self._slide
        first = max(start, -(-(pane - self._size + 1) // self._slide))
        found = []
        for index in range(first, last + 1 if stop is None else min(last + 1, stop)):
            if index not in self._windows and len(self._windows) >= WINDOWS_MAX:
                continue
            found.append((index, self._windows.setdefault(index, _Window())))
        return found

    def _fail(self, pane: int) -> None:
        for _, window in self._of_pane(pane, -(2**62), None):
            window.failed = True
            window.tables.clear()

    def _add(self, window: _Window, contents: Mapping[str, Content], index: int) -> None:
        for name, content in contents.items() if not window.failed else ():
            rows = all_rows(content)
            known = window.tables.get(name)
            try:
                merged, ids = combine_numbered([rows] if known is None else [known, rows])
            except DataError:
                self._windows[index] = _Window(failed=True)
                return
            most = self._groups_max if name == MAIN else VALUES_MAX
            if name == MAIN:
                window.skipped = max(window.skipped, merged.count - most)
                changed = np.zeros(merged.count, bool)
                changed[: len(window.changed)] = window.changed
                changed[ids[-1]] = True
                window.changed = changed[:most]
            # The first rows stay: a state without some records is a lower bound.
            window.tables[name] = merged if merged.count <= most else merged.slice(0, most)

    def _states(self, index: int, window: _Window, bytes_max: int) -> EarlyStates | None:
        main, chosen = window.tables.get(MAIN), np.flatnonzero(window.changed)
        if main is None or not len(chosen) or bytes_max <= 0:
            return None
        groups = self._of_groups(window, main.take(chosen))
        start = index * self._slide_us
        places = self._condition.passing(groups, (start, start + self._window_us)).places
        reached = chosen if places is None else chosen[places]
        window.changed[chosen] = False
        count = len(reached)
        while count:
            selected = self._of_groups(window, main.take(reached[:count]))
            payload = encode_partial({self._sent[name]: rows for name, rows in selected.items()})
            if len(payload) <= bytes_max:
                window.changed[reached[count:]] = True
                return EarlyStates(index, payload, window.skipped)
            if count == 1 and bytes_max == MESSAGE_BYTES_MAX:  # a group that no message can carry
                window.skipped += 1
                reached = reached[1:]
                count = len(reached)
            elif count == 1:
                break
            else:
                count //= 2
        window.changed[reached] = True
        return None

    @staticmethod
    def _of_groups(window: _Window, groups: Rows) -> dict[str, Rows]:
        found = {MAIN: groups}
        for name, rows in window.tables.items():
            if name != MAIN:
                found[name] = rows.take(within_groups(rows, groups))
        return found

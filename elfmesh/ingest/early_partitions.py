"""Early rows of SEALED at the master: partitions that have all their seals in intervals that are still open.

Plain functions and state for a thread, as `early_rows`. Owns the members' states of sealed partitions, by
interval, and which partitions have made their rows. The step of the root (`ql.engine.sealed`) decides in
which interval a partition ends, after the groups that closed intervals have left open.

Invariants: of the states that a member has sent of a partition in an interval, the newest (boot, number)
counts. A partition makes its rows once in an epoch. They are made of as many records as its producers state,
so that a missing state delays them and never makes them wrong. Only the first interval that is not closed has
early rows: an earlier one that is open may lack an agent in its record, or have a seal that is repeated here.

Paper: Blazes III (sealing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from elfmesh import ql
from elfmesh.cbt.rows import Rows, combine
from elfmesh.control.protocol.events import MemberStates, MergeEarly
from elfmesh.errors import DataError
from elfmesh.ql.engine.open_groups import ClosedPane, Open, Tables, merged, owners, read_open
from elfmesh.ql.engine.sealed import ended_early, partitions_of, rows_of_partitions
from elfmesh.ql.plan.early import early_parts
from elfmesh.ql.plan.statement import MAIN, SEALED, SEALS
from elfmesh.safeguards import safeguard

OTHER_STATES = "the states are not those of this job"


@dataclass(frozen=True, slots=True)
class EndedRows:
    """Rows of the partitions that end in an interval, and the members whose states they contain."""

    interval: int
    rows: pa.Table
    members: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _States:
    """The newest states of one member in one interval, and (boot, number) of each partition."""

    tables: Tables
    partitions: Rows
    boots: np.ndarray
    numbers: np.ndarray


@dataclass(slots=True)
class _Interval:
    """States by member, and the partitions that have made their rows."""

    members: dict[bytes, _States] = field(default_factory=dict)
    emitted: list[Rows] = field(default_factory=list)

    @property
    def groups(self) -> int:
        rows = (rows for each in self.members.values() for rows in each.tables.values())
        return sum(each.count for each in (*rows, *self.emitted))


class SealedPartitions:
    """Sealed partitions of one job in one epoch, by one version."""

    def __init__(self, statement: ql.Statement) -> None:
        (self._part,) = early_parts(statement)
        self._query = ql.Query(statement)
        window, seal = statement.window, statement.plan.seal
        assert window is not None
        assert seal is not None
        self._size_us, self._width = window.size_us, len(seal.keys)
        self._keys = statement.tables[0].keys
        self._intervals: dict[int, _Interval] = {}
        self._open: tuple[bytes, Open] = (b"", Open({}))

    @property
    def groups(self) -> int:
        return sum(each.groups for each in self._intervals.values())

    def drop_below(self, index: int) -> None:
        for each in [each for each in self._intervals if each < index]:
            del self._intervals[each]

    def check(self, tables: Tables) -> None:
        """Raise DataError unless a message has tables of this job."""
        if not {MAIN, SEALS} & set(tables) or not of_statement(self._part, tables):
            raise DataError(OTHER_STATES)

    def add(self, interval: int, states: MemberStates, tables: Tables) -> None:
        """Take a member's states."""
        members = self._intervals.setdefault(interval, _Interval()).members
        members[states.member] = self._newest(members.get(states.member), tables, states.boot, states.number)

    def take(self, effect: MergeEarly, changed: Sequence[Tables]) -> list[EndedRows]:
        """Return the rows of the partitions that end now, of those in `changed`; (): of all.

        Raises DataError if the open groups are too many, and ProtocolError if they cannot be read.
        """
        found = list[EndedRows]()
        for index in self._ending(effect):
            wanted = [partitions_of(self._width, each) for each in changed]
            wanted = wanted or [one.partitions for one in self._intervals[index].members.values()]
            found += self._ended(effect, index, self._without_emitted(combine(wanted)))
        return found

    @safeguard("early-first-interval")
    def _ending(self, effect: MergeEarly) -> list[int]:
        """Return the interval whose partitions may end now: the first one that is not closed."""
        return [effect.below] if effect.is_settled and effect.below in self._intervals else []

    @safeguard("early-partition-newest")
    def _newest(self, known: _States | None, new: Tables, boot: int, number: int) -> _States:
        partitions = partitions_of(self._width, new)
        count = partitions.count
        boots, numbers = np.full(count, boot, np.int64), np.full(count, number, np.int64)
        if known is None:
            return _States(new, partitions, boots, numbers)
        places = self._places(known.partitions, partitions)
        there = np.flatnonzero(places >= 0)
        before = places[there]
        newer = is_newer(boot, number, known.boots[before], known.numbers[before])
        taken = np.ones(count, bool)
        taken[there[~newer]] = False
        stays = np.ones(known.partitions.count, bool)
        stays[before[newer]] = False
        kept, fresh = known.partitions.take(np.flatnonzero(stays)), partitions.take(np.flatnonzero(taken))
        tables = merged([self._rows(known.tables, kept), self._rows(new, fresh)])
        return _States(
            tables,
            combine([kept, fresh]),
            np.concatenate([known.boots[stays], boots[taken]]),
            np.concatenate([known.numbers[stays], numbers[taken]]),
        )

    def _places(self, partitions: Rows, others: Rows) -> np.ndarray:
        return owners(self._keys[: self._width], partitions, others)

    def _rows(self, tables: Tables, partitions: Rows) -> Tables:
        if not partitions.count:
            return {}
        return rows_of_partitions(self._keys, self._width, tables, partitions, inside=True)

    def _without_emitted(self, wanted: Rows) -> Rows:
        inside = np.zeros(wanted.count, bool)
        for each in self._intervals.values():
            for emitted in each.emitted:
                inside |= self._places(emitted, wanted) >= 0
        return wanted.take(np.flatnonzero(~inside))

    def _ended(self, effect: MergeEarly, index: int, wanted: Rows) -> Iterator[EndedRows]:
        """Yield the rows of the wanted partitions that end in an interval."""
        if not wanted.count:
            return
        interval = self._intervals[index]
        tables = merged([self._rows(each.tables, wanted) for each in interval.members.values()])
        start_us = index * self._size_us
        ends = start_us, start_us + self._size_us
        if self._open[0] != effect.open:
            self._open = effect.open, read_open(effect.open, effect.manifest.text, SEALED)
        pane = ClosedPane({}, 1.0, *ends, effect.members)
        found = ended_early(self._query.statement, self._open[1], pane, tables, wanted)
        if found is None:
            return
        ended, keys = found
        interval.emitted.append(keys)
        table = self._query.finalise_parts(ended, ends)
        if table.num_rows:
            yield EndedRows(index, table, self._inside(keys))

    def _inside(self, keys: Rows) -> tuple[bytes, ...]:
        return tuple(
            sorted(
                {
                    member
                    for each in self._intervals.values()
                    for member, states in each.members.items()
                    if (self._places(keys, states.partitions) >= 0).any()
                }
            )
        )


def of_statement(part: ql.Statement, tables: Tables) -> bool:
    """Return whether tables are those of a statement with early rows, or some of them."""
    wanted = {each.name: each for each in part.tables}
    if not set(tables) <= set(wanted):
        return False
    for name, rows in tables.items():
        kinds = tuple((one, kind) for one, (kind, _) in wanted[name].aggregates.items())
        if (rows.layout.keys, rows.layout.aggregates) != (tuple(wanted[name].keys), kinds):
            return False
    return True


@safeguard("early-boot")
def is_newer(boot: int, number: int, boots: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return for each known state whether that of a message is newer or the same."""
    return np.asarray((boots < boot) | ((boots == boot) & (numbers <= number)))

"""Partitions of SEALED at the root: continues open ones with the content of one interval, and ends others.

A partition is one value of the keys of SEALED. It ends in the interval in which the last of its producers
seals it, or when it has had no record for AFTER. Agents reduce the records of an interval and, in the table
of seals, its punctuations: one row per partition and producer, so a repeated seal counts once. Event time
alone decides in which interval a partition ends, whatever the order of arrival.

Invariants: a partition is open, or ended and remembered for AFTER, or unknown. Records of a partition that is
remembered are late. A seal of it changes nothing. With EARLY, a producer beyond their number makes the record
incomplete in which a partition ends: a master that knew no other producer may have emitted its rows.

Paper: Blazes III (sealing); the numbers of producers and of records are additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt import finish_blocks
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.contents import FinishedBlocks, RowsContent
from elfmesh.cbt.rows import Layout, Rows, combine
from elfmesh.ql.engine.assumed import contradictions
from elfmesh.ql.engine.open_groups import (
    NEVER_US,
    Bools,
    ClosedPane,
    GroupStep,
    Ints,
    Open,
    Tables,
    chosen,
    integers,
    merged,
    owners,
    state_of,
    together,
)
from elfmesh.ql.plan.statement import (
    ALL,
    LAST_TIME,
    MAIN,
    ONE,
    PRODUCER,
    RECORDS_COUNT,
    SEALED,
    SEALED_AT,
    SEALED_PRODUCERS,
    SEALED_RECORDS,
    SEALS,
    Statement,
)
from elfmesh.safeguards import safeguard


def step(statement: Statement, open_: Open, pane: ClosedPane) -> GroupStep:
    """Add the content of one interval to the partitions that are open after all earlier ones.

    Raises DataError if more than OPEN_ROWS_MAX rows are open. Cost: a copy of both sides' rows and a few hash
    aggregations of keys.
    """
    seal, keys = statement.plan.seal, statement.tables[0].keys
    assert seal is not None
    width = len(seal.keys)
    fresh, late = _without_late(keys, width, pane.rows(SEALED), _remembered(open_.ended, pane.start_us))
    shares: list[tuple[float, Tables]] = []
    for share, tables in open_.shares.items():
        known = partitions_of(width, tables)
        mine = rows_of_partitions(keys, width, fresh, known, inside=True)
        fresh = rows_of_partitions(keys, width, fresh, known, inside=False)
        shares.append((min(share, pane.completeness), merged([tables, mine])))
    shares.append((pane.completeness, fresh))
    held = contradictions(statement, open_.shares.values())
    broken = contradictions(statement, [tables for _, tables in shares]) - held
    done: list[Tables] = []
    left: list[tuple[float, Tables]] = []
    gone = [] if (before := _remembered(open_.ended, pane.end_us)) is None else [before]
    completeness, due_us = 1.0, NEVER_US
    for share, tables in shares:
        if not tables:
            continue
        parts = _Partitions(statement, tables)
        ends = parts.ended(pane)
        if ends.any():
            ended = parts.keys.take(np.flatnonzero(ends))
            completeness = min(completeness, share, float(parts.ratios(pane)[ends].min()))
            done.append(_without_seals(rows_of_partitions(keys, width, tables, ended, inside=True)))
            gone.append(_until(ended, pane.end_us + seal.after_us))
        if not ends.all():
            going_on = parts.keys.take(np.flatnonzero(~ends))
            due_us = min(due_us, int(parts.last[~ends].min()) + seal.after_us)
            left.append((share, rows_of_partitions(keys, width, tables, going_on, inside=True)))
    opened = together(left, SEALED, {MAIN: combine(gone)} if gone else {}, due_us)
    rows = finish_blocks(merged([tables for tables in done if tables]))
    return GroupStep(rows, completeness, opened, late, broken)


def ended_early(
    statement: Statement, open_: Open, pane: ClosedPane, tables: Tables, wanted: Rows
) -> tuple[Mapping[str, FinishedBlocks], Rows] | None:
    """Return the tables and the keys of partitions that end in the first interval that is not closed.

    The tables contain some of the records of that interval. As many records as the producers have stated are
    therefore all of them, and further ones would contradict a producer. A partition waits for its final
    record if it may have lost records.

    Args:
        statement: a job with SEALED, EARLY and RECORDS.
        open_: the partitions that the closed intervals have left open.
        pane: the interval, without its tables.
        tables: some of its records and seals.
        wanted: keys of the partitions to examine.
    """
    seal, keys = statement.plan.seal, statement.tables[0].keys
    assert seal is not None
    width = len(seal.keys)
    lossy = [partitions_of(width, each) for share, each in open_.shares.items() if share < 1.0]
    wanted = _without(keys, width, wanted, lossy)
    before = open_.shares.get(1.0, {})
    there = rows_of_partitions(keys, width, merged([before, tables]), wanted, inside=True)
    if MAIN not in there or SEALS not in there:
        return None
    parts = _Partitions(statement, there)
    ends = parts.keys.take(np.flatnonzero(parts.sealed(pane) & _have_all_records(parts, pane)))
    before = rows_of_partitions(keys, width, before, ends, inside=True)
    inside = rows_of_partitions(keys, width, tables, ends, inside=True)
    made = step(
        statement,
        replace(open_, shares={1.0: before} if before else {}),
        replace(pane, tables={name: RowsContent(rows) for name, rows in inside.items()}),
    )
    return (made.ended, ends) if made.ended else None


@safeguard("early-stated-records")
def _have_all_records(parts: _Partitions, pane: ClosedPane) -> Bools:
    """Return the partitions that have as many producers and records as stated."""
    return np.asarray(parts.ratios(pane) == 1.0, np.bool_)


def _without(keys: tuple[str, ...], width: int, partitions: Rows, others: Sequence[Rows]) -> Rows:
    """Return the partitions that are not among others."""
    inside = np.zeros(partitions.count, np.bool_)
    for each in others:
        inside |= owners(keys[:width], each, partitions) >= 0
    return partitions.take(np.flatnonzero(~inside)) if inside.any() else partitions


class _Partitions:
    """Facts about the partitions of one share, one value per partition.

    Attributes:
        keys: their keys.
        last: times of the last record or punctuation.
    """

    def __init__(self, statement: Statement, tables: Tables) -> None:
        seal, job = statement.plan.seal, statement.job
        assert seal is not None
        self.seal, self.tables = seal, tables
        self.early = job is not None and job.early_us is not None
        self.keys = partitions_of(len(seal.keys), tables)
        self.last = np.full(self.keys.count, -NEVER_US, np.int64)
        self._of: Mapping[str, Ints] = {
            name: owners(self.keys.layout.keys, self.keys, rows)
            for name, rows in self.tables.items()
            if name in (MAIN, SEALS)
        }
        for name, column in ((MAIN, LAST_TIME), (SEALS, SEALED_AT)):
            if name in self._of:
                np.maximum.at(self.last, self._of[name], integers(self.tables[name], column))

    def ended(self, pane: ClosedPane) -> Bools:
        """Return the partitions that end in an interval."""
        if pane.is_last:
            return np.ones(self.keys.count, np.bool_)
        return self.sealed(pane) | (pane.end_us - self.last >= self.seal.after_us)

    @safeguard("all-seals")
    def sealed(self, pane: ClosedPane) -> Bools:
        needed = self._needed(pane)
        return (needed > 0) & (self._sealers(pane) >= needed)

    def ratios(self, pane: ClosedPane) -> npt.NDArray[np.float64]:
        """Return how complete each partition is by what its producers have stated.

        With EARLY, a producer beyond their number makes it incomplete: it may have had its rows before.
        """
        needed, sealers = self._needed(pane), self._sealers(pane)
        most = np.maximum(sealers if self.early else 1, 1)
        found = np.where(self.sealed(pane), np.minimum(needed / most, 1.0), sealers / np.maximum(needed, 1))
        found[(needed == 0) & ~self.sealed(pane)] = 0.0
        if self.seal.records is None:
            return found
        had, stated = self._summed(MAIN, RECORDS_COUNT), self._summed(SEALS, SEALED_RECORDS)
        most = np.maximum(had, stated)
        return np.minimum(found, np.where(most > 0, np.minimum(had, stated) / np.maximum(most, 1), 1.0))

    def _summed(self, name: str, column: str) -> Ints:
        total = np.zeros(self.keys.count, np.int64)
        if name in self._of:
            np.add.at(total, self._of[name], np.maximum(integers(self.tables[name], column), 0))
        return total

    def _needed(self, pane: ClosedPane) -> Ints:
        """Return how many producers have to seal each partition; 0: that is unknown."""
        needed = np.zeros(self.keys.count, np.int64)
        if self.seal.how == ONE:
            needed[:] = 1
        elif self.seal.how == ALL:
            needed[:] = len(pane.members)
        elif SEALS in self._of:
            stated = state_of(self.tables[SEALS], SEALED_PRODUCERS)
            known = np.asarray(stated.is_valid().to_numpy(zero_copy_only=False), np.bool_)
            counts = np.maximum(integers(self.tables[SEALS], SEALED_PRODUCERS), 1)  # its own producer is one
            np.maximum.at(needed, self._of[SEALS][known], counts[known])
        return needed

    def _sealers(self, pane: ClosedPane) -> Ints:
        """Return how many producers have sealed each partition; of ALL, the members among them."""
        if SEALS not in self._of:
            return np.zeros(self.keys.count, np.int64)
        of = self._of[SEALS]
        if self.seal.how == ALL:
            (at,) = (at for at, name in enumerate(self.tables[SEALS].layout.keys) if name == PRODUCER)
            names = self.tables[SEALS].keys[at].to_pylist()
            of = of[np.array([name in pane.members for name in names], np.bool_)]
        return np.bincount(of, minlength=self.keys.count).astype(np.int64)


def partitions_of(width: int, tables: Tables) -> Rows:
    """Return the keys of the partitions that have records or seals, each once. `width`: number of keys."""
    found = []
    for name in (MAIN, SEALS):
        if name in tables:
            rows = tables[name]
            layout = Layout(rows.layout.keys[:width], ())
            found.append(Rows(layout, rows.count, rows.keys[:width], ()))
    return combine(found)


def rows_of_partitions(
    keys: tuple[str, ...], width: int, tables: Tables, partitions: Rows, *, inside: bool
) -> Tables:
    """Return the rows of these partitions, or of all others."""
    found: Tables = {}
    if MAIN in tables:
        mask = (owners(keys[:width], partitions, tables[MAIN]) >= 0) == inside
        found |= chosen(keys, _without_seals(tables), mask)
    if SEALS in tables:
        mask = (owners(keys[:width], partitions, tables[SEALS]) >= 0) == inside
        if mask.any():
            found[SEALS] = tables[SEALS].take(np.flatnonzero(mask))
    return found


def _without_seals(tables: Tables) -> Tables:
    return {name: rows for name, rows in tables.items() if name != SEALS}


def _without_late(keys: tuple[str, ...], width: int, fresh: Tables, ended: Rows | None) -> tuple[Tables, int]:
    """Return the rows of partitions that have not ended, and the number of records of the others."""
    if ended is None:
        return fresh, 0
    late = rows_of_partitions(keys, width, fresh, ended, inside=True)
    records = int(integers(late[MAIN], RECORDS_COUNT).sum()) if MAIN in late else 0
    return rows_of_partitions(keys, width, fresh, ended, inside=False), records


def _until(partitions: Rows, until_us: int) -> Rows:
    """Return ended partitions with the time until which they are remembered."""
    law, ids = LAWS["max"], np.arange(partitions.count)
    state = law.lift(pa.array(np.full(partitions.count, until_us)), ids, partitions.count)
    layout = Layout(partitions.layout.keys, ((SEALED_AT, "max"),))
    return Rows(layout, partitions.count, partitions.keys, (state,))


@safeguard("ended-partitions")
def _remembered(ended: Tables, at_us: int) -> Rows | None:
    """Return the ended partitions that are remembered beyond a time."""
    if MAIN not in ended:
        return None
    kept = np.flatnonzero(integers(ended[MAIN], SEALED_AT) > at_us)
    return ended[MAIN].take(kept) if len(kept) else None

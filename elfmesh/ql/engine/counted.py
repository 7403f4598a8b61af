"""Windows of ROWS(n[, step]) at the root: counts the records of each group, and ends windows that are full.

The records of a group are in the order of their times, then of the bytes of all fields in use. So the order
does not depend on how agents split the records. Equal records are one row with their number. A record has a
position: the number of records of its group since the first window that is not full began. Window j holds the
positions from j * step to j * step + n, and is a row of the interval of its last record.

Invariants: a group keeps the records of windows that are not full, at most n - 1. If its next window begins
later than its next record (step > n), it keeps its last record, whose position gives the count. A group whose
next record begins a window keeps nothing. A record that is missing moves all later windows of its group, so
the completeness is the least of all intervals since the count began.

Paper: Hwang et al., IV-F, Algorithm 4 (sort, count, update the windows, emit those whose expiry count is
reached). Deviation: the count is per group, and starts again at the first window that is not full.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from elfmesh.cbt import finish_blocks, kernel
from elfmesh.cbt.keys import TABLE_SEED, encode, form_of
from elfmesh.cbt.laws import State
from elfmesh.cbt.rows import Rows, combine
from elfmesh.errors import DataError
from elfmesh.ql.engine.open_groups import (
    NEVER_US,
    OPEN_ROWS_MAX,
    ClosedPane,
    GroupStep,
    Ints,
    Open,
    Tables,
    integers,
    together,
    with_lacking,
)
from elfmesh.ql.plan.relation import Counted, Derived
from elfmesh.ql.plan.statement import MAIN, ROWS, Statement, part_table

TABLE = part_table(0, MAIN)


def step(statement: Statement, open_: Open, pane: ClosedPane) -> GroupStep:
    """Add the records of one interval to those of the windows that are not full.

    Raises DataError if the windows that end, or those that stay open, have more than OPEN_ROWS_MAX rows.
    Cost: a sort of the rows of both, and a row for each window that a row is in.
    """
    window, relation = statement.window, statement.relation
    assert window is not None
    assert isinstance(relation, Derived)
    assert isinstance(relation.source, Counted)
    share = min(pane.completeness, *(each for _, each in open_.lacking), 1.0)
    lacking = with_lacking((), pane.end_us, share)
    kept, fresh = open_.tables(), pane.rows(ROWS)
    if TABLE not in fresh:
        return GroupStep({}, share, replace(open_, lacking=lacking, due_us=NEVER_US))
    blocks = [kept[TABLE], fresh[TABLE]] if TABLE in kept else [fresh[TABLE]]
    records = _Records.of(blocks, len(relation.source.groups))
    ended = records.windows(window.rows, window.step)
    left = together([(1.0, records.left(window.rows, window.step))], ROWS, due_us=NEVER_US)
    return GroupStep(finish_blocks(ended), share, replace(left, lacking=lacking))


class _Records(Struct, frozen=True):
    """Records of all groups in order.

    Attributes:
        rows: the records, equal ones once.
        counts: how many each row stands for.
        firsts: position of its first one.
        totals: position behind the last record of its group.
        is_last: whether it is the last row of its group.
    """

    rows: Rows
    counts: Ints
    firsts: Ints
    totals: Ints
    is_last: np.ndarray

    @classmethod
    def of(cls, blocks: list[Rows], keys: int) -> _Records:
        """Order the rows of all blocks; `keys` is the number of the groups' keys."""
        rows = combine(blocks)
        columns = rows.keys[:-1]  # without the position
        order, _ = kernel.active.sort_keys(encode(columns, form_of(columns), rows.count), 0)
        rows = rows.take(order)
        groups = _groups(rows, keys)
        counts = integers(rows, rows.layout.aggregates[0][0])
        begins = np.flatnonzero(np.diff(groups, prepend=-1))
        own = np.repeat(np.arange(len(begins)), np.diff(begins, append=rows.count))
        before = np.cumsum(counts) - counts
        kept = np.asarray(rows.keys[-1].to_numpy(zero_copy_only=False), np.int64)
        firsts = before - before[begins][own] + kept[begins][own]
        ends = np.append(begins[1:], rows.count) - 1
        return cls(rows, counts, firsts, (firsts + counts)[ends][own], np.isin(np.arange(rows.count), ends))

    def windows(self, size: int, slide: int) -> Tables:
        """Return the records of the windows that are full, once for each of them."""
        stops, full = self.firsts + self.counts, self._full(size, slide)
        least = np.maximum(0, (self.firsts - size) // slide + 1)
        most = np.minimum(full - 1, (stops - 1) // slide)
        numbers = np.maximum(0, most - least + 1)
        total = int(numbers.sum())
        if total > OPEN_ROWS_MAX:
            hint = "Make the windows or the intervals shorter, or the step longer."
            raise DataError(f"the windows of an interval have more than {OPEN_ROWS_MAX} rows", hint=hint)
        at = np.repeat(np.arange(self.rows.count), numbers)
        window = np.arange(total) - np.repeat(np.cumsum(numbers) - numbers, numbers) + least[at]
        inside = np.minimum(stops[at], window * slide + size) - np.maximum(self.firsts[at], window * slide)
        return self._table(at, window, inside)

    def left(self, size: int, slide: int) -> Tables:
        """Return the records that the groups keep, with their new positions."""
        begin = self._full(size, slide) * slide
        firsts = np.maximum(self.firsts, begin)
        counts = self.firsts + self.counts - firsts
        gap = self.is_last & (self.totals < begin)
        firsts, counts = np.where(gap, self.totals - 1, firsts), np.where(gap, 1, counts)
        at = np.flatnonzero(counts > 0)
        return self._table(at, (firsts - begin)[at], counts[at])

    def _full(self, size: int, slide: int) -> Ints:
        """Return int64 per row: how many windows of its group are full."""
        return np.maximum(0, (self.totals - size) // slide + 1)

    def _table(self, at: Ints, positions: Ints, counts: Ints) -> Tables:
        if not len(at):
            return {}
        rows = self.rows.take(at)
        (state,) = rows.states
        keys = (*rows.keys[:-1], pa.array(positions))
        return {TABLE: Rows(rows.layout, len(at), keys, (State(state.kind, state.type, {"rows": counts}),))}


def _groups(rows: Rows, keys: int) -> Ints:
    """Return int64 per row: the number of its group."""
    columns = rows.keys[:keys]
    table = kernel.active.table(TABLE_SEED)
    return np.asarray(table.upsert(encode(columns, form_of(columns), rows.count)), np.int64)

"""Hot root: the root's buffer, with the rows of recent keys, each key once, updated in place by each batch.

A hash table maps every key of a batch to its row, and accumulators add the batch's values to these rows, so
the hot set of a skewed stream never leaves the root. An input that does not fit changes nothing.

Paper: ELF 2.2 ("the CBT simply defers the insert"). Deviation: the paper's root buffer is a list of PAOs that
is sorted and merged when it is full. A table merges at once, so a hot set needs no push down at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.codec.codec import Packed, pack_parts
from elfmesh.cbt.columns import promote
from elfmesh.cbt.kernel.protocol import HotTable, Keys
from elfmesh.cbt.keys import KeyForm, decode
from elfmesh.cbt.laws import LAWS, Accumulator, State
from elfmesh.cbt.laws.base import Law, Values
from elfmesh.cbt.rows import Layout, Rows, Types
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.cbt.tree.fused import FusedRows

SLICE_ROWS = 1 << 16
"""Rows that are added at once: bounds the excess over a limit of the root, and keeps ids in the cache."""

SLICE_BYTES = 8 << 20
"""Key bytes that are added at once, for long keys."""

GROWING_INSERTS = 1.5
"""Rows per new key from which a full root grows instead of being pushed down. At least a third of the rows
then find their key, and pushing a key down costs about ten times an update in place."""

GROWING_SHARE = 0.75
"""A root also grows if the share of rows that found their key, since it was half full, is at least this part
of its size relative to the largest root. This share is expected if all keys are equally likely and fit."""

PACKED_ROWS = 1 << 14
"""Rows that are packed at once, so that the memory for packing stays in the cache."""

_OBJECT_BYTES = 700
"""Python objects of an empty root with one aggregate (measured), and per further aggregate:"""
_ACCUMULATOR_BYTES = 300


class HotRows(Struct, frozen=True):
    """Copy of the root's rows, in no order, each key once."""

    layout: Layout
    form: KeyForm
    keys: Keys
    states: tuple[State, ...]

    @property
    def count(self) -> int:
        return len(self.keys)

    def rows(self) -> Rows:
        return Rows(self.layout, self.count, decode(self.keys, self.form), self.states)

    def sorted(self, bits: int) -> list[SortedRows]:
        order, cuts = kernel.active.sort_keys(self.keys, bits)
        runs = kernel.active.front_code(self.keys, order, cuts)
        return _parts(self, runs, order, cuts, bits)


def _parts(
    rows: HotRows, runs: Sequence[kernel.Run], order: np.ndarray, cuts: np.ndarray, bits: int
) -> list[SortedRows]:
    states = [state.take(order) for state in rows.states]
    if len(runs) == 1:
        return [SortedRows(rows.layout, rows.form, runs[0], tuple(states))] if runs[0].rows else []
    places = cuts.tolist()
    return [
        SortedRows(
            rows.layout,
            rows.form,
            run,
            tuple(state.slice(places[part], places[part + 1]) for state in states),
            bits,
            part,
        )
        for part, run in enumerate(runs)
        if run.rows
    ]


class HotRoot:
    """Root's buffer of a tree; it grows from `rows` to `rows_max` keys while that is worthwhile."""

    __slots__ = (
        "_accumulators",
        "_added",
        "_added_by_half",
        "_apart",
        "_beside",
        "_fused",
        "_held",
        "_room",
        "_rows_by_half",
        "_rows_max",
        "_rows_min",
        "_table",
        "bytes_max",
        "form",
        "layout",
    )

    def __init__(
        self,
        layout: Layout,
        form: KeyForm,
        types: Types,
        *,
        rows: int,
        rows_max: int,
        bytes_max: int,
        seed: int,
    ) -> None:
        self.layout = layout
        self.form = form
        self._room = self._rows_min = rows
        self._rows_max = max(rows, rows_max)
        self.bytes_max = bytes_max
        self._added = self._added_by_half = self._rows_by_half = 0
        self._table: HotTable = kernel.active.table(seed)
        self._accumulators: tuple[Accumulator, ...] = tuple(
            LAWS[kind].accumulator(data_type)
            for (_, kind), data_type in zip(layout.aggregates, types, strict=True)
        )
        self._fused = self._fuse()
        # Whether accumulators contain a part of the aggregates with fused fields.
        self._apart = False
        # Cached results of `nbytes`, of all and of the accumulators; None after a change.
        self._held: int | None = None
        self._beside: int | None = None

    def _fuse(self) -> FusedRows:
        types = [accumulator.type for accumulator in self._accumulators]
        return FusedRows([kind for _, kind in self.layout.aggregates], types)

    @property
    def rows(self) -> int:
        return self._table.rows

    @property
    def nbytes(self) -> int:
        if self._held is not None:
            return self._held
        if self._beside is None:
            self._beside = sum(each.nbytes + _ACCUMULATOR_BYTES for each in self._accumulators)
        self._held = self._table.nbytes + self._fused.nbytes + _OBJECT_BYTES + self._beside
        return self._held

    @property
    def is_full(self) -> bool:
        """Return whether to push the root down. It grows instead while enough rows find their key."""
        if self.rows > self._room:
            there = 1 - (self.rows - self._rows_by_half) / (self._added - self._added_by_half)
            while self.rows > self._room:
                fits = there >= GROWING_SHARE * self._room / self._rows_max
                pays = self._added >= GROWING_INSERTS * self.rows
                if self._room >= self._rows_max or not (pays or fits):
                    return True
                self._room = min(2 * self._room, self._rows_max)
            self._rows_by_half, self._added_by_half = self.rows, self._added
        return self.nbytes > self.bytes_max

    def add(self, keys: Keys, values: Sequence[Values], start: int) -> None:
        """Add the rows `keys` of a batch, from `start` on.

        Raises ValueError if a key is too long; none is added then.
        """
        self._held = None
        count = len(keys)
        ids = self._table.upsert(keys)
        groups = self._table.rows
        fused = self._add_fused(values, start, ids)
        for number, (accumulator, taken) in enumerate(zip(self._accumulators, values, strict=True)):
            if not fused or number not in self._fused.numbers:
                accumulator.add(_slice(taken, start, count), ids, groups)
                self._beside = None
        self._apart = self._apart or not fused
        self._took(count)

    def _add_fused(self, values: Sequence[Values], start: int, ids: np.ndarray) -> bool:
        fused = self._fused
        if not fused.numbers or (inputs := fused.inputs(values, start, len(ids))) is None:
            return False
        if not fused.reserve(inputs):
            if not fused.may_be_read_out:
                return False
            self._part()
            if not fused.reserve(inputs):
                return False
        fused.add(inputs, ids, self._table.rows, self._room + SLICE_ROWS)
        return True

    def _part(self) -> None:
        """Move the content of fused fields to the accumulators. Cost: a merge of all rows."""
        fused = self._fused
        if fused.used:
            columns, rows, groups = fused.columns(fused.used), np.arange(fused.used), self._table.rows
            for number in sorted(fused.numbers):
                self._accumulators[number].merge(fused.state(number, columns), rows, groups)
            fused.clear()
            self._apart, self._beside = True, None

    def merge(self, keys: Keys, states: Sequence[State], start: int) -> None:
        self._held = self._beside = None
        count = len(keys)
        ids = self._table.upsert(keys)
        groups = self._table.rows
        for accumulator, state in zip(self._accumulators, states, strict=True):
            whole = start == 0 and state.rows == count
            accumulator.merge(state if whole else state.slice(start, start + count), ids, groups)
        self._apart = True
        self._took(count)

    def _took(self, count: int) -> None:
        self._added += count
        if self.rows <= self._room // 2:
            self._rows_by_half, self._added_by_half = self.rows, self._added

    def promote(self, form: KeyForm, types: Types) -> None:
        self.form, self._held, self._beside = form, None, None
        if types == tuple(accumulator.type for accumulator in self._accumulators):
            return
        self._part()
        for accumulator, data_type in zip(self._accumulators, types, strict=True):
            accumulator.promote(data_type)
        self._fused = self._fuse()

    def freeze(self) -> HotRows:
        return HotRows(self.layout, self.form, self._table.keys(), self._states(self._frozen()))

    def packed(self, bits: int) -> Iterator[list[Packed]]:
        """Yield all rows in order, in non-empty parts by the top bits of the placement hash. Cost: a sort.

        Each step returns some thousand rows, because newly allocated memory costs more than the work in it.
        """
        order, cuts = self._table.order(bits)
        frozen = self._frozen()
        part, parts = 0, len(cuts) - 1
        while part < parts:
            stop = max(int(np.searchsorted(cuts, cuts[part] + PACKED_ROWS, side="right")) - 1, part + 1)
            rows, own = order[cuts[part] : cuts[stop]], cuts[part : stop + 1] - cuts[part]
            part, first = stop, part
            if not len(rows):
                continue
            states = self._states(frozen, rows)
            runs = self._table.runs(rows, own)
            yield pack_parts(self.layout, self.form, runs, states, None, own, bits, first)

    def clear(self) -> None:
        """Remove all rows; keeps the memory, and the size unless it was not worthwhile."""
        if self._added < GROWING_INSERTS * self.rows:
            self._room = max(self._room // 2, self._rows_min)
        self._held = None
        self._table.clear()
        if self._apart or len(self._fused.numbers) < len(self._accumulators):
            self._beside = None
            for accumulator in self._accumulators:
                accumulator.clear()
        self._fused.clear()
        self._apart = False
        self._added = self._added_by_half = self._rows_by_half = 0

    def _frozen(self) -> dict[int, State]:
        self._held = None
        if self._apart:
            self._part()
        if self._apart or len(self._fused.numbers) < len(self._accumulators):
            self._beside = None  # reading may allocate tables
        groups = self._table.rows
        return {
            number: accumulator.freeze(groups)
            for number, accumulator in enumerate(self._accumulators)
            if self._apart or number not in self._fused.numbers
        }

    def _states(self, frozen: dict[int, State], rows: np.ndarray | None = None) -> tuple[State, ...]:
        numbers = range(len(self._accumulators))
        fused = [number for number in numbers if number not in frozen]
        states = {number: state if rows is None else state.take(rows) for number, state in frozen.items()}
        if fused:
            columns = self._fused.columns(self._table.rows, rows)
            states |= {number: self._fused.state(number, columns) for number in fused}
        return tuple(states[number] for number in numbers)


def slices(keys: Keys) -> Iterator[tuple[int, Keys]]:
    """Split keys into pieces that can be added at once, with the index of their first row."""
    rows = len(keys)
    offsets = keys.offsets
    if rows <= SLICE_ROWS and int(offsets[-1]) - int(offsets[0]) <= SLICE_BYTES:
        if rows:
            yield 0, keys
        return
    start = 0
    while start < rows:
        by_bytes = int(np.searchsorted(offsets, int(offsets[start]) + SLICE_BYTES, side="right")) - 1
        stop = min(start + SLICE_ROWS, max(by_bytes, start + 1), rows)
        yield start, Keys(offsets[start : stop + 1], keys.data)
        start = stop


def conform(values: Sequence[Values], own: Types, wanted: Types, laws: Sequence[Law]) -> list[Values]:
    """Convert inputs whose states have their `own` types to those of the wider, wanted types."""
    return [
        taken if has == wants or taken is None or law.takes_narrower else _promoted(taken, wants)
        for taken, has, wants, law in zip(values, own, wanted, laws, strict=True)
    ]


def _promoted(values: pa.Array | tuple[pa.Array, ...], wanted: pa.DataType) -> Values:
    """Promote the first input, which is aggregated; others only select."""
    if isinstance(values, tuple):
        return (promote(values[0], wanted), *values[1:])
    return promote(values, wanted)


def _slice(values: Values, start: int, count: int) -> Values:
    if values is None:
        return None
    if isinstance(values, tuple):
        return tuple(column.slice(start, count) for column in values)
    return values if start == 0 and len(values) == count else values.slice(start, count)

"""Merging of packed blocks: columns of all blocks are decoded together, or merged in encoded form.

A leaf merges about ten pending runs of about a thousand rows with its base. Decoded one by one, the fixed
costs of the columns would dominate. Counters can be added in encoded form, and exact sums in short form
(`nearsum.add_short`); the least encoded integer is the least decimal. Other columns are merged by the laws.
The result equals that of `merge_sorted` for the unpacked blocks.

Paper: ELF 2.2 (buffers are merged when they are pushed down).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.codec import nearsum
from elfmesh.cbt.codec.codec import (
    LaidState,
    Packed,
    StateHeader,
    lay_out,
    pack,
    pack_laid,
    unpack,
)
from elfmesh.cbt.codec.column_codec import NUMBERS, Column, Laid, lay_numbers, read_array
from elfmesh.cbt.columns import type_from_name
from elfmesh.cbt.kernel import ANY_FLOAT, Run, ShortSums
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.rows import Layout
from elfmesh.cbt.sorted_rows import merge_sorted
from elfmesh.cbt.sums.floatsum import bound
from elfmesh.errors import ControlFlow

_REST_BITS_MAX = 62
_ADDED_MAX = 1 << 52
"""Limit of counters and limbs that are added without carries, so that the result is far from overflow."""

_INT64 = np.iinfo(np.int64)


class _Apart(ControlFlow):
    """The columns have no common encoding and must be decoded separately."""


def merge_packed(blocks: Sequence[Packed]) -> Packed:
    """Merge all rows of trusted blocks with one prefix, by key.

    Cost: as `merge_sorted`, with less per column.
    """
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0].header
    shape = _shape(first.states)
    try:
        for block in blocks[1:]:
            header = block.header
            if header.states is not first.states and _shape(header.states) != shape:
                raise _Apart
            if header.keys is not first.keys and header.keys != first.keys:
                raise _Apart
        return _merge(blocks)
    except _Apart:
        return pack(merge_sorted([unpack(block.header, block.chunks, trusted=True) for block in blocks]))


def _merge(blocks: Sequence[Packed]) -> Packed:
    header = blocks[0].header
    columns = _Columns(blocks)
    laid = [columns.state(number) for number in range(len(header.states))]
    run, maps = kernel.active.merge_runs(
        [
            Run(
                block.header.rows,
                block.header.key_bytes,
                block.header.wide,
                np.frombuffer(block.chunks[0], np.uint8),
            )
            for block in blocks
        ]
    )
    merger = _Merger(np.concatenate(maps), run.rows, len(blocks))
    layout = Layout(
        tuple(key.name for key in header.keys), tuple((state.name, state.kind) for state in header.states)
    )
    form = KeyForm(
        tuple(type_from_name(key.type) for key in header.keys), tuple(key.nullable for key in header.keys)
    )
    merged = [merger.state(state) for state in laid]
    return pack_laid(layout, form, run, merged, header.bits, header.prefix)


@lru_cache(maxsize=1 << 10)
def _shape(states: tuple[StateHeader, ...]) -> list[object]:
    """Return the properties that must be equal for the states of two blocks to be decoded together."""
    return [
        (
            state.name,
            state.kind,
            state.type,
            tuple((column.name, column.type) for column in state.columns),
            None if state.sums is None else state.sums[0],
        )
        for state in states
    ]


class _Columns:
    """Decoder of columns of all blocks, block after block, in the order in which they were packed."""

    def __init__(self, blocks: Sequence[Packed]) -> None:
        self._blocks = blocks
        self._rows = [block.header.rows for block in blocks]
        self._cuts = list(pairwise(accumulate(self._rows, initial=0)))
        self._next = 1
        self._numbers: dict[int, np.ndarray] = {}

    def state(self, number: int) -> LaidState:
        header = self._blocks[0].header.states[number]
        laid = [self._column(number, at) for at in range(len(header.columns))]
        sums = header.sums
        if sums is not None:
            rests, unit = self._rests(number, laid[-1].values)
            laid[-1] = lay_numbers(laid[-1].column.name, rests)
            sums = sums[0], unit
        return LaidState(header.kind, type_from_name(header.type), laid, sums)

    def _column(self, state: int, at: int) -> Laid:
        place = self._next
        self._next += 1
        columns = [block.header.states[state].columns[at] for block in self._blocks]
        chunks = [memoryview(block.chunks[place]) for block in self._blocks]
        first = columns[0]
        if first.type == NUMBERS:
            values = self._numbers[place] = self._plain(columns, chunks)
            return lay_numbers(first.name, values)
        if (
            not first.nulls
            and first.coding in ("ints", "scaled")
            and all(
                (column.coding, column.nulls, column.extra) == (first.coding, False, first.extra)
                for column in columns
            )
        ):
            parts = zip(self._rows, columns, chunks, strict=True)
            values = kernel.active.unpack_ints(
                [(rows, column.width, column.base, chunk) for rows, column, chunk in parts]
            )
            return Laid(Column(first.name, first.type, first.coding, extra=first.extra), values)
        arrays = zip(columns, chunks, self._rows, strict=True)
        array = pa.concat_arrays([read_array(*array, trusted=True) for array in arrays])
        return Laid(Column(first.name, first.type, ""), array=array)

    def _plain(self, columns: Sequence[Column], chunks: Sequence[memoryview]) -> np.ndarray:
        same = {column.extra if column.coding == "same" else -1 for column in columns}
        if same == {columns[0].extra} and columns[0].coding == "same":
            return self._numbers[columns[0].extra]
        parts = zip(columns, chunks, self._rows, strict=True)
        if same == {-1}:
            return kernel.active.unpack_ints(
                [(rows, column.width, column.base, chunk) for column, chunk, rows in parts]
            )
        return np.concatenate(
            [
                self._numbers[column.extra][start:stop]
                if column.coding == "same"
                else kernel.active.unpack_ints([(rows, column.width, column.base, chunk)])
                for (column, chunk, rows), (start, stop) in zip(parts, self._cuts, strict=True)
            ]
        )

    def _rests(self, state: int, rests: np.ndarray | None) -> tuple[np.ndarray, int]:
        """Return the rests of exact sums besides their near decimals, in one unit.

        Raises _Apart if none fits all.
        """
        assert rests is not None
        units = []
        for block in self._blocks:
            sums = block.header.states[state].sums
            assert sums is not None
            units.append(sums[1])
        unit = min(units)
        if max(units) == unit:
            return rests, unit
        rests = rests.copy()  # another column may refer to it (`same`)
        for own, (start, stop) in zip(units, self._cuts, strict=True):
            part = rests[start:stop]
            largest = bound(part)
            if own > unit and largest:
                if largest.bit_length() + own - unit > _REST_BITS_MAX:
                    raise _Apart
                part <<= np.int64(own - unit)
        return rests, unit


class _Merger:
    """Merger of columns by group; `ids` is the group of each row, `times` the most rows of a group."""

    def __init__(self, ids: np.ndarray, groups: int, times: int) -> None:
        self._ids, self._groups, self._times = ids, groups, times
        self._added: list[tuple[np.ndarray, np.ndarray]] = []

    def state(self, state: LaidState) -> LaidState:
        if state.kind in ("min", "max"):
            merged = self._extreme(
                state, kernel.active.least if state.kind == "min" else kernel.active.greatest
            )
        else:
            merged = self._total(state) if state.kind in ("count", "sum") else None
        return self._by_law(state) if merged is None else merged

    def _extreme(
        self, state: LaidState, scatter: Callable[[np.ndarray, np.ndarray, np.ndarray], None]
    ) -> LaidState | None:
        (laid,) = state.columns
        # The bits of negative floats do not have the order of the floats.
        if laid.values is None or (laid.column.coding == "ints" and pa.types.is_floating(state.type)):
            return None
        out = np.full(self._groups, _INT64.max if state.kind == "min" else _INT64.min, np.int64)
        scatter(self._ids, laid.values, out)
        return LaidState(state.kind, state.type, [Laid(laid.column, out)])

    def _total(self, state: LaidState) -> LaidState | None:
        short = state.sums is not None
        counters = state.columns[:-2] if short else state.columns
        if any(bound(_values(laid)) * self._times >= _ADDED_MAX for laid in counters):
            return None
        sums = None
        if state.sums is not None:
            digits, unit = state.sums
            if digits == ANY_FLOAT:
                return None
            near, rest = map(_values, state.columns[-2:])
            sums = nearsum.add_short(
                ShortSums(near, digits, rest, unit), self._ids, self._groups, self._times
            )
            if sums is None:
                return None
        added = [lay_numbers(laid.column.name, self._sum(_values(laid))) for laid in counters]
        if sums is not None:
            added += [lay_numbers("near", sums.near), lay_numbers("rest", sums.rest)]
            return LaidState(state.kind, state.type, added, (sums.digits, sums.unit))
        return lay_out(State(state.kind, state.type, {laid.column.name: _values(laid) for laid in added}))

    def _sum(self, values: np.ndarray) -> np.ndarray:
        for given, out in self._added:
            if given is values:
                return out
        out = np.zeros(self._groups, np.int64)
        kernel.active.add(self._ids, values, out)
        self._added.append((values, out))
        return out

    def _by_law(self, state: LaidState) -> LaidState:
        parts: dict[str, np.ndarray | pa.Array] = {}
        for laid in state.columns:
            parts[laid.column.name] = _values(laid) if laid.column.type == NUMBERS else laid.as_array()
        if state.sums is not None:
            digits, unit = state.sums
            limbs = nearsum.spread(ShortSums(parts.pop("near"), digits, parts.pop("rest"), unit))
            parts |= {f"limb{limb:+d}": column for limb, column in limbs.items()}
        accumulator = LAWS[state.kind].accumulator(state.type)
        accumulator.merge(State(state.kind, state.type, parts), self._ids, self._groups)
        return lay_out(accumulator.freeze(self._groups))


def _values(laid: Laid) -> np.ndarray:
    assert laid.values is not None
    return laid.values

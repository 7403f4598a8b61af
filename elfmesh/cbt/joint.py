"""Merging many small packed blocks: each column of all of them is read as one, and merged as one.

A leaf merges some ten pending runs of about a thousand rows at once. Read one by one, the fixed costs of
their columns are most of the work; but what one tree has packed is mostly coded alike, and byte planes of one
width, laid side by side, are the planes of all rows.

Owns: which columns can be read together. Refuses to know: trees, compression, what the columns mean.

Invariant: the result stands for the same rows as that of `merge_sorted` of the unpacked blocks.

Paper: ELF 2.2 (buffers are merged when they are pushed down).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel, nearsum
from elfmesh.cbt.codec import Packed, StateHeader, unpack
from elfmesh.cbt.column_codec import NUMBERS, Column, read_array, read_numbers
from elfmesh.cbt.columns import type_from_name
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.rows import Layout
from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted

_DECIMAL_BYTES = 16
_REST_BITS_MAX = 62


def merge_packed(blocks: Sequence[Packed]) -> SortedRows:
    """All rows of trusted blocks of one place, by key. Cost: as `merge_sorted`, with less per block."""
    states = _states(blocks) if len(blocks) > 1 else None
    if states is None:
        return merge_sorted([unpack(block.header, block.chunks, trusted=True) for block in blocks])
    header = blocks[0].header
    run, maps = kernel.active.merge_runs(
        [
            kernel.Run(
                block.header.rows,
                block.header.key_bytes,
                block.header.wide,
                np.frombuffer(block.chunks[0], np.uint8),
            )
            for block in blocks
        ]
    )
    ids = np.concatenate(maps)
    merged = []
    for state in states:
        accumulator = LAWS[state.kind].accumulator(state.type)
        accumulator.merge(state, ids, run.rows)
        merged.append(accumulator.freeze(run.rows))
    layout = Layout(
        tuple(key.name for key in header.keys), tuple((state.name, state.kind) for state in header.states)
    )
    form = KeyForm(
        tuple(type_from_name(key.type) for key in header.keys), tuple(key.nullable for key in header.keys)
    )
    return SortedRows(layout, form, run, tuple(merged), header.bits, header.prefix)


def _states(blocks: Sequence[Packed]) -> list[State] | None:
    """The states of all rows, block below block; None if the blocks have not the same columns."""
    first = blocks[0].header
    shape = [_shape(state) for state in first.states]
    for block in blocks[1:]:
        if block.header.keys != first.keys or [_shape(state) for state in block.header.states] != shape:
            return None
    reader = _Reader(blocks)
    states = []
    for number, header in enumerate(first.states):
        parts = {column.name: reader.column(number, at) for at, column in enumerate(header.columns)}
        if header.sums is not None:
            near, rest = parts.pop("near"), reader.rests(number, parts.pop("rest"))
            if rest is None:
                return None
            assert isinstance(near, np.ndarray)
            limbs = nearsum.spread(nearsum.NearSums(near, header.sums[0], *rest))
            parts |= {f"limb{limb:+d}": column for limb, column in limbs.items()}
        states.append(State(header.kind, type_from_name(header.type), parts))
    return states


def _shape(state: StateHeader) -> tuple[object, ...]:
    """What must be equal for the states of two blocks to be read together."""
    columns = tuple((column.name, column.type) for column in state.columns)
    return state.name, state.kind, state.type, columns, None if state.sums is None else state.sums[0]


class _Reader:
    """Reads columns of all blocks, in the order in which they were packed."""

    def __init__(self, blocks: Sequence[Packed]) -> None:
        self._blocks = blocks
        self._rows = [block.header.rows for block in blocks]
        self._cuts = list(pairwise(accumulate(self._rows, initial=0)))
        self._next = 1
        self._numbers: dict[int, np.ndarray] = {}

    def column(self, state: int, at: int) -> np.ndarray | pa.Array:
        """The next one: column `at` of aggregate `state`."""
        place = self._next
        self._next += 1
        columns = [block.header.states[state].columns[at] for block in self._blocks]
        chunks = [memoryview(block.chunks[place]) for block in self._blocks]
        first = columns[0]
        alike = all(column == first for column in columns[1:])
        if first.type != NUMBERS:
            if alike and _has_planes(first):
                return read_array(first, _beside(first, chunks), sum(self._rows), trusted=True)
            arrays = zip(columns, chunks, self._rows, strict=True)
            return pa.concat_arrays([read_array(*array, trusted=True) for array in arrays])
        if alike and first.coding == "same":
            return self._numbers[first.extra]
        if alike:
            values = read_numbers(first, _beside(first, chunks), sum(self._rows))
        else:
            values = np.concatenate(
                [
                    self._numbers[column.extra][start:stop]
                    if column.coding == "same"
                    else read_numbers(column, chunk, stop - start)
                    for column, chunk, (start, stop) in zip(columns, chunks, self._cuts, strict=True)
                ]
            )
        self._numbers[place] = values
        return values

    def rests(self, state: int, rests: np.ndarray | pa.Array) -> tuple[np.ndarray, int] | None:
        """What exact sums have beside their near decimals, in one unit; None if no unit holds them all."""
        units = []
        for block in self._blocks:
            sums = block.header.states[state].sums
            assert sums is not None
            units.append(sums[1])
        unit = min(units)
        if max(units) == unit:
            return rests, unit
        rests = rests.copy()  # it may be what another column is the same as
        for own, (start, stop) in zip(units, self._cuts, strict=True):
            part = rests[start:stop]
            largest = max(int(part.max()), -int(part.min()))
            if own > unit and largest:
                if largest.bit_length() + own - unit > _REST_BITS_MAX:
                    return None
                part <<= np.int64(own - unit)
        return rests, unit


def _has_planes(column: Column) -> bool:
    """Whether the chunks of several blocks make one: text and bitmaps do not lie in planes of whole rows."""
    return not column.nulls and column.coding in ("ints", "scaled", "words", "null")


def _beside(column: Column, chunks: Sequence[memoryview]) -> memoryview:
    """The byte planes of all chunks: each plane that of the first chunk, then of the second, and so on."""
    width = _DECIMAL_BYTES if column.coding == "words" else column.width
    if width < 2:
        return memoryview(b"".join(chunks))
    planes = [np.frombuffer(chunk, np.uint8).reshape(width, -1) for chunk in chunks]
    return memoryview(np.concatenate(planes, axis=1).tobytes())

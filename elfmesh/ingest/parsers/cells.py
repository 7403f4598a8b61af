"""Cells: the scanner's description of the fields of a block, and their conversion to Arrow columns.

A cell is a kind (one byte) and 64 bits: a number, or the position of a text in the block. A column is copied
only when it is requested. Values of lines that the scanner refused are added one by one. csrc/scan.h repeats
the numbers of the kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

NULL, BOOL, INT, FLOAT, TEXT, ESCAPED, OTHER = range(7)
TEXT_MASK = 1 << TEXT | 1 << ESCAPED
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
LENGTH_BITS = 32
_TIMESTAMP = pa.timestamp("us", tz="UTC")

Kinds = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.int64]]


class Grid:
    """Cells of some fields of all lines of a block.

    Attributes:
        side: texts that are not in the block; their positions continue after the block's.
        others: values that no cell can hold; the cell contains the index.
        kinds, words: both [slots, rows]; a scan fills them, refused lines with nulls.
    """

    __slots__ = ("data", "kinds", "others", "scan", "side", "words")

    def __init__(self, scan: Any, data: bytes | pa.Buffer, slots: int, rows: int) -> None:
        self.scan = scan
        self.data = data
        self.side = bytearray()
        self.others: list[object] = []
        self.kinds: Kinds = _pooled(slots * rows, np.uint8).reshape(slots, rows)
        self.words: Words = _pooled(slots * rows, np.int64).reshape(slots, rows)

    def put(self, slot: int, row: int, value: object) -> None:
        kind, word = NULL, 0
        if isinstance(value, bool):
            kind, word = BOOL, int(value)
        elif isinstance(value, int) and INT_MIN <= value <= INT_MAX:
            kind, word = INT, value
        elif isinstance(value, float):
            kind, word = FLOAT, struct.unpack("=q", struct.pack("=d", value))[0]
        elif isinstance(value, str):
            text = value.encode()
            kind, word = TEXT, (len(self.data) + len(self.side)) << LENGTH_BITS | len(text)
            self.side += text
        elif value is not None:
            kind, word = OTHER, len(self.others)
            self.others.append(value)
        self.kinds[slot, row] = kind
        self.words[slot, row] = word

    def drop(self, rows: Words, kept: Sequence[int] = ()) -> Words | None:
        """Drop some rows without those that are kept after all; returns the remaining ones, None for all."""
        if kept:
            rows = np.setdiff1d(rows, kept)
        if not len(rows):
            return None
        left = np.delete(np.arange(self.kinds.shape[1]), rows)
        self.kinds = np.ascontiguousarray(self.kinds[:, left])
        self.words = np.ascontiguousarray(self.words[:, left])
        return left

    def field(self, slots: Sequence[int]) -> CellField:
        """Return a field that may be in several slots: for each row the first slot that is not null."""
        filled = [slot for slot in slots if self.scan.present(self.kinds[slot]) != 1 << NULL]
        first, *more = filled or slots[:1]
        kinds, words = self.kinds[first], self.words[first]
        for slot in more:
            missing = kinds == NULL
            kinds = np.where(missing, self.kinds[slot], kinds)
            words = np.where(missing, self.words[slot], words)
        return CellField(self, kinds, words)


class CellField:
    """Field of all rows: the cells of one future column. Its grid must not change any more."""

    __slots__ = ("_grid", "kinds", "present", "words")

    def __init__(self, grid: Grid, kinds: Kinds, words: Words) -> None:
        self._grid = grid
        self.kinds = kinds
        self.words = words
        self.present: int = grid.scan.present(kinds) & ~(1 << NULL)
        """One bit for every kind except null that occurs."""

    def __len__(self) -> int:
        return len(self.kinds)

    def column(self, kind: pa.DataType) -> pa.Array:
        """Return the column with a type that all cells fit: bool, int64, float64, string or null."""
        if pa.types.is_null(kind) or not self.present:
            return pa.nulls(len(self), kind)
        if pa.types.is_string(kind):
            return self._strings()
        if pa.types.is_boolean(kind):
            return self._fixed("b", kind, (len(self) + 7) // 8)
        if pa.types.is_int64(kind):
            return self._fixed("i", kind, 8 * len(self))
        return self._fixed("f", kind, 8 * len(self))

    def times(self) -> pa.Array:
        """Return event times; values that the scanner cannot read use the slow path, one by one."""
        from elfmesh.ingest.parsers.schema import timestamps

        grid = self._grid
        times, outcome = _pooled(len(self), np.int64), np.empty(len(self), np.uint8)
        if grid.scan.times(grid.data, grid.side, self.kinds, self.words, times, outcome):
            rows = np.flatnonzero(outcome == OTHER)
            slow = timestamps(CellField(grid, self.kinds[rows], self.words[rows]).values())
            outcome[rows] = np.where(slow.is_valid().to_numpy(zero_copy_only=False), INT, NULL)
            times[rows] = slow.view(pa.int64()).fill_null(0).to_numpy()
        return pa.Array.from_buffers(
            _TIMESTAMP, len(self), [_validity(grid.scan, outcome), pa.py_buffer(times)]
        )

    def values(self) -> list[Any]:
        """Return all cells as Python values, for the slow path."""
        values: list[Any] = self._strings().to_pylist()
        others = self._grid.others
        for row in np.flatnonzero(
            (self.kinds != TEXT) & (self.kinds != ESCAPED) & (self.kinds != NULL)
        ).tolist():
            kind, word = int(self.kinds[row]), int(self.words[row])
            if kind == BOOL:
                values[row] = bool(word)
            elif kind == INT:
                values[row] = word
            elif kind == FLOAT:
                values[row] = struct.unpack("=d", struct.pack("=q", word))[0]
            else:
                values[row] = others[word]
        return values

    def _strings(self) -> pa.Array:
        scan, cells = self._grid.scan, (self._grid.data, self._grid.side, self.kinds, self.words)
        offsets = pa.allocate_buffer(4 * (len(self) + 1))
        data = pa.allocate_buffer(scan.offsets(*cells, offsets))
        scan.texts(*cells, offsets, data)
        kinds = self.kinds
        if self.present & ~TEXT_MASK:
            kinds = np.where((kinds == TEXT) | (kinds == ESCAPED), kinds, NULL).astype(np.uint8)
        buffers = [_validity(self._grid.scan, kinds), offsets, data]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)

    def _fixed(self, what: str, kind: pa.DataType, nbytes: int) -> pa.Array:
        values = pa.allocate_buffer(nbytes)
        self._grid.scan.values(what, self.kinds, self.words, values)
        return pa.Array.from_buffers(
            kind, len(self), [_validity(self._grid.scan, self.kinds), pa.py_buffer(values)]
        )


def _pooled(count: int, kind: Any) -> np.ndarray[Any, Any]:
    """Return uninitialised memory of Arrow's pool, because page faults would cost more than the scan."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def _validity(scan: Any, kinds: Kinds) -> pa.Buffer | None:
    bits = pa.allocate_buffer((len(kinds) + 7) // 8)
    return bits if scan.validity(kinds, bits) else None


def spans(scan: Any, data: bytes, starts: Words, ends: Words) -> pa.Array:
    """Return a string column of slices `[start, end)` of a block of valid UTF-8."""
    grid = Grid(scan, data, 1, 0)
    words = starts << LENGTH_BITS | (ends - starts)
    return CellField(grid, np.full(len(starts), TEXT, np.uint8), words).column(pa.string())


def event_times(texts: pa.Array, scan: Any = None) -> pa.Array:
    """Convert a string column to event times as the query language does; invalid times are null."""
    data = texts.buffers()[2]
    if scan is None or data is None or not len(texts):
        from elfmesh.ql.values.times import to_timestamp_us

        return to_timestamp_us(texts)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts = offsets.astype(np.int64)
    kinds = np.full(len(texts), TEXT, np.uint8)
    if texts.null_count:
        kinds[texts.is_null().to_numpy(zero_copy_only=False)] = NULL
    grid = Grid(scan, data, 1, 0)
    return CellField(grid, kinds, starts[:-1] << LENGTH_BITS | np.diff(starts)).times()

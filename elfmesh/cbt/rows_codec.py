"""Columns as bytes and back, laid out so that zstd does well: narrow shuffled integers, lengths and text.

Owns: the byte form of one block of PAO rows, without compression, and its header. Used inside the tree
(buffer.py) and on the wire (partial.py).
Refuses to know: zstd, checksums, files, sockets.

Invariants:
    - `read_rows(header, write_rows(rows))` has equal columns.
    - A reader trusts nothing: every length is checked against the bytes there are, and what a column unfolds
      to is taken from a budget before it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import (
    byte_layout,
    canonical_floats,
    decimal_words,
    from_int64,
    is_bytes,
    to_int64,
    type_from_name,
    type_name,
    valid_mask,
)
from elfmesh.cbt.rows import Layout, Rows, checked_state
from elfmesh.errors import ProtocolError

_WIDTHS = (0, 1, 2, 4, 8)
_DECIMAL_BYTES = 16
_ROW_BYTES = 16
"""Per row and column: the widest fixed value, or the length and the place of a string with its validity."""
_STRING_BYTES_MAX = (1 << 31) - 1


class Column(msgspec.Struct, array_like=True, frozen=True):
    """How one column lies in the payload.

    Attributes:
        name: key name, or part of a state.
        type: canonical type name.
        nulls: whether a validity bitmap comes first, ceil(rows / 8) bytes.
        width: bytes per integer (0: all are `base`); for strings, of their lengths.
        base: added to each integer.
        size: bytes of string data after the lengths.
    """

    name: str
    type: str
    nulls: bool
    width: int
    base: int
    size: int


class StateHeader(msgspec.Struct, array_like=True, frozen=True):
    """One aggregate: its name, kind, value type and columns."""

    name: str
    kind: str
    type: str
    parts: tuple[Column, ...]


class BlockHeader(msgspec.Struct, array_like=True, frozen=True):
    """One block of PAO rows: their number, the keys, the states."""

    rows: int
    keys: tuple[Column, ...]
    states: tuple[StateHeader, ...]


def write_rows(rows: Rows, out: list[bytes]) -> BlockHeader:
    """Append the columns' bytes to `out`; the header to read them by. Cost: two passes over the columns."""
    keys = tuple(_write_array(name, key, out) for name, key in zip(rows.layout.keys, rows.keys, strict=True))
    states = []
    for (name, kind), state in zip(rows.layout.aggregates, rows.states, strict=True):
        parts = tuple(
            _write_array(part, column, out)
            if not isinstance(column, np.ndarray)
            else Column(part, "int64", False, *_write_ints(column, out), 0)
            for part, column in state.parts.items()
        )
        states.append(StateHeader(name, kind, type_name(state.type), parts))
    return BlockHeader(rows.count, keys, tuple(states))


def unfolded_bytes(header: BlockHeader) -> int:
    """Memory that reading a block takes, by its header alone; what a reader takes from its budget."""
    parts = [part for state in header.states for part in state.parts]
    fixed = header.rows * (_ROW_BYTES * (len(header.keys) + len(parts)))
    return fixed + sum(abs(column.size) for column in (*header.keys, *parts))


def _write_ints(values: np.ndarray, out: list[bytes]) -> tuple[int, int]:
    """Narrowed to their range, low bytes of all first; gives (width, base)."""
    if len(values) == 0:
        return 0, 0
    low, high = int(values.min()), int(values.max())
    if low == high:
        return 0, low
    span = high - low
    width = 1 if span < 1 << 8 else 2 if span < 1 << 16 else 4 if span < 1 << 32 else 8
    base = low if width < 8 else 0
    narrow = (values - base if base else values).astype(f"<u{width}" if width < 8 else "<i8", copy=False)
    if width > 1:
        narrow = np.ascontiguousarray(narrow).view(np.uint8).reshape(-1, width).T
    out.append(narrow.tobytes())
    return width, base


def _write_array(name: str, array: pa.Array, out: list[bytes]) -> Column:
    kind = type_name(array.type)
    if pa.types.is_null(array.type):
        return Column(name, kind, False, 0, 0, 0)
    valid = valid_mask(array)
    if valid is not None:
        out.append(np.packbits(valid, bitorder="little").tobytes())
    if is_bytes(array.type):
        offsets, data = byte_layout(array)
        lengths = np.diff(offsets)
        width, base = _write_ints(lengths.astype(np.int64), out)
        text = data[int(offsets[0]) : int(offsets[-1])]
        out.append(text.tobytes())
        return Column(name, kind, valid is not None, width, base, len(text))
    if pa.types.is_decimal(array.type):
        words = np.ascontiguousarray(decimal_words(array))
        out.append(words.view(np.uint8).reshape(-1, _DECIMAL_BYTES).T.tobytes())
        return Column(name, kind, valid is not None, 0, 0, 0)
    values = to_int64(array)[0]
    if valid is not None:
        values = np.where(valid, values, 0)
    return Column(name, kind, valid is not None, *_write_ints(values, out), 0)


class BlockReader:
    """Reads blocks from one payload, in order.

    Args:
        payload: the uncompressed bytes.
        budget: what all columns together may take in memory; a constant column of a billion rows takes none
            on the wire, so the payload's own length is no bound.
        trusted: bytes of our own tree: skips the checks of the values.
    """

    def __init__(self, payload: bytes, budget: int, *, trusted: bool = False) -> None:
        self._payload = payload
        self._at = 0
        self._budget = budget
        self._trusted = trusted

    def read_rows(self, header: BlockHeader) -> Rows:
        """The next block.

        Raises:
            ProtocolError: the header does not fit the bytes, or the values do not fit their types.
        """
        try:
            if header.rows < 0 or not (header.keys or header.states):
                raise ValueError("a block without rows or columns")
            self._budget -= unfolded_bytes(header)
            if self._budget < 0:
                raise ValueError("it unfolds to more than the limit")
            keys = tuple(self._read_array(column, header.rows) for column in header.keys)
            states = tuple(
                checked_state(state.kind, state.type, dict(self._read_parts(state, header.rows)), header.rows)
                for state in header.states
            )
        except (ValueError, pa.ArrowException, OverflowError) as error:
            raise ProtocolError(f"damaged block of partial aggregates: {error}") from None
        names = tuple(column.name for column in header.keys)
        layout = Layout(names, tuple((state.name, state.kind) for state in header.states))
        return Rows(layout, header.rows, keys, states)

    def finish(self) -> None:
        """Check that nothing is left over.

        Raises:
            ProtocolError: bytes remain that no header speaks of.
        """
        if self._at != len(self._payload):
            raise ProtocolError(f"{len(self._payload) - self._at} bytes too many in a partial aggregate")

    def _read_parts(self, state: StateHeader, rows: int) -> Iterable[tuple[str, np.ndarray | pa.Array]]:
        for column in state.parts:
            if column.name == "value" or column.type != "int64":
                yield column.name, self._read_array(column, rows)
            elif column.nulls:
                raise ValueError(f"state column {column.name!r} is not made of plain integers")
            else:
                yield column.name, self._read_ints(column, rows)

    def _take(self, size: int) -> memoryview:
        if size < 0 or size > len(self._payload) - self._at:
            raise ValueError("a column reaches over the end")
        self._at += size
        return memoryview(self._payload)[self._at - size : self._at]

    def _read_ints(self, column: Column, rows: int) -> np.ndarray:
        if column.width not in _WIDTHS:
            raise ValueError(f"integers of {column.width} bytes")
        if column.width == 0:
            return np.full(rows, column.base, np.int64)
        raw = np.frombuffer(self._take(rows * column.width), np.uint8)
        if column.width > 1:
            raw = np.ascontiguousarray(raw.reshape(column.width, rows).T)
        if column.width == 8:
            return raw.view("<i8").reshape(rows)
        values = raw.view(f"<u{column.width}").reshape(rows).astype(np.int64)
        if column.base:
            values += np.int64(column.base)
        return values

    def _read_array(self, column: Column, rows: int) -> pa.Array:
        data_type = type_from_name(column.type)
        if pa.types.is_null(data_type):
            return pa.nulls(rows)
        valid = None
        if column.nulls:
            bits = np.frombuffer(self._take((rows + 7) // 8), np.uint8)
            valid = np.unpackbits(bits, count=rows, bitorder="little").astype(np.bool_)
        if is_bytes(data_type):
            array = self._read_strings(column, rows, valid, data_type)
        elif pa.types.is_decimal(data_type):
            array = self._read_decimals(rows, valid, data_type)
        else:
            array = from_int64(self._read_ints(column, rows), valid, data_type)
        if not self._trusted:
            if pa.types.is_floating(data_type):
                array = canonical_floats(array)
            array.validate(full=True)
        return array

    def _read_strings(
        self, column: Column, rows: int, valid: np.ndarray | None, data_type: pa.DataType
    ) -> pa.Array:
        lengths = self._read_ints(column, rows)
        if not 0 <= column.size <= _STRING_BYTES_MAX or (rows and int(lengths.min()) < 0):
            raise ValueError("lengths of strings")
        if rows and int(lengths.max()) > column.size:
            raise ValueError("a string longer than all of them")
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] != column.size:
            raise ValueError("lengths of strings do not add up")
        data = pa.py_buffer(bytes(self._take(column.size)))
        bitmap = None if valid is None else _bitmap(valid)
        return pa.Array.from_buffers(data_type, rows, [bitmap, pa.py_buffer(offsets.astype(np.int32)), data])

    def _read_decimals(self, rows: int, valid: np.ndarray | None, data_type: pa.DataType) -> pa.Array:
        raw = np.frombuffer(self._take(rows * _DECIMAL_BYTES), np.uint8)
        words = np.ascontiguousarray(raw.reshape(_DECIMAL_BYTES, rows).T)
        bitmap = None if valid is None else _bitmap(valid)
        return pa.Array.from_buffers(data_type, rows, [bitmap, pa.py_buffer(words)])


def _bitmap(valid: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())

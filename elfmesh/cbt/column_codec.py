"""One column as bytes and back, laid out so that zstd does well: narrow integers, byte planes, decimals.

Owns: the byte form of a column of a state, and its header.
Refuses to know: keys, laws, blocks, zstd.

Codings of a column, after a bitmap of valid rows if it has nulls:

    ints     integers less `base`, in `width` bytes each (0: all are `base`), byte planes from the lowest up;
             floats by their bits, decimals by their low half if that is all there is to them
    scaled   floats that are an integer divided by 10**`extra`: that integer, as `ints`
    words    decimals: 16 byte planes
    text     lengths of strings as `ints`, then `extra` bytes of text
    same     what column number `extra` of the block has
    null     nothing

Invariants:
    - What is read equals what was written, bit for bit.
    - A reader checks every length against the bytes there are before it allocates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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

NUMBERS = ""
"""The type of a column that is a plain int64 numpy array."""

DIGITS_MAX = 6
"""Digits after the point that are looked for in floats."""

POWERS = 10.0 ** np.arange(DIGITS_MAX + 1)
SAMPLE_ROWS = 32
"""Rows that decide whether a column of floats may be one of decimals; the others then have to agree."""

_WIDTH_MAX = 8
_DECIMAL_BYTES = 16
_MANTISSA = float(1 << 53)
_NEGATIVE_ZERO_BITS = np.int64(-(1 << 63))
_ROW_BYTES_MAX = 24
"""Memory of a row of any column: 16 bytes of the widest value, or place and length of a string, and more."""


class Column(msgspec.Struct, array_like=True, frozen=True):
    """How one column lies in its chunk. See the module.

    Attributes:
        name: part of a state.
        type: canonical type name, NUMBERS for a plain int64 array.
        coding: see the module.
        nulls: whether a bitmap comes first, ceil(rows / 8) bytes.
        width: bytes per integer.
        base: added to each integer.
        extra: see the module.
    """

    name: str
    type: str
    coding: str
    nulls: bool = False
    width: int = 0
    base: int = 0
    extra: int = 0


@dataclass(frozen=True, slots=True)
class Laid:
    """A column before it is cut into blocks: what all blocks have alike is found out once.

    Attributes:
        column: the header, without what differs from block to block.
        values: int64: what is written as integers, if that is all there is to it.
        valid: bool: which rows are, if some are not.
        array: the column itself, if it is written some other way.
    """

    column: Column
    values: np.ndarray | None = None
    valid: np.ndarray | None = None
    array: pa.Array | None = None


def lay_numbers(name: str, values: np.ndarray) -> Laid:
    """An int64 array."""
    return Laid(Column(name, NUMBERS, "ints"), values)


def lay_array(name: str, array: pa.Array) -> Laid:
    """A canonical Arrow array. Cost: nothing for integers, some passes for floats and decimals."""
    data_type = array.type
    kind = type_name(data_type)
    if pa.types.is_null(data_type):
        return Laid(Column(name, kind, "null"), array=array)
    valid = valid_mask(array)
    if is_bytes(data_type):
        return Laid(Column(name, kind, "text", valid is not None), None, valid, array)
    coding, digits = "ints", 0
    if pa.types.is_decimal(data_type):
        words = decimal_words(array)
        if valid is not None:
            words = np.where(valid[:, None], words, 0)
        values = np.ascontiguousarray(words[:, 0])
        if (words[:, 1] != (values >> np.int64(63))).any():
            return Laid(Column(name, kind, "words", valid is not None), None, valid, array)
    else:
        values = to_int64(array)[0]
        if valid is not None:
            values = np.where(valid, values, 0)
        if pa.types.is_floating(data_type) and (scaled := as_decimals(values.view(np.float64))) is not None:
            coding, (values, digits) = "scaled", scaled
    return Laid(Column(name, kind, coding, valid is not None, extra=digits), values, valid)


def write_column(laid: Laid, cuts: Sequence[int]) -> list[tuple[Column, bytes]]:
    """Headers and bytes of the rows between neighbouring cuts, at least one each. Cost: two passes."""
    if laid.values is None:
        return [_write_other(laid, start, stop) for start, stop in pairwise(cuts)]
    column = laid.column
    out = []
    for (width, base, data), (start, stop) in zip(
        _write_ints(laid.values, cuts), pairwise(cuts), strict=True
    ):
        header = Column(column.name, column.type, column.coding, column.nulls, width, base, column.extra)
        out.append((header, _packed_bits(laid.valid, start, stop) + data))
    return out


def _write_other(laid: Laid, start: int, stop: int) -> tuple[Column, bytes]:
    column, array = laid.column, laid.array
    bitmap = _packed_bits(laid.valid, start, stop)
    if column.coding == "text":
        offsets, text = byte_layout(array)
        offsets = offsets[start : stop + 1]
        ((width, base, lengths),) = _write_ints(np.diff(offsets).astype(np.int64), (0, stop - start))
        used = text[int(offsets[0]) : int(offsets[-1])]
        header = Column(column.name, column.type, "text", column.nulls, width, base, len(used))
        return header, b"".join((bitmap, lengths, used.tobytes()))
    if column.coding == "words":
        words = decimal_words(array)[start:stop]
        if laid.valid is not None:
            words = np.where(laid.valid[start:stop, None], words, 0)
        planes = np.ascontiguousarray(words).view(np.uint8).reshape(-1, _DECIMAL_BYTES).T
        return column, bitmap + planes.tobytes()
    return column, b""


def _packed_bits(valid: np.ndarray | None, start: int, stop: int) -> bytes:
    return b"" if valid is None else np.packbits(valid[start:stop], bitorder="little").tobytes()


def _write_ints(values: np.ndarray, cuts: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """Width, base and byte planes of int64 values, cut."""
    if len(values) == 0:
        return [(0, 0, b"")] * (len(cuts) - 1)
    if len(cuts) == 2:
        lows, highs = [int(values.min())], [int(values.max())]
    else:
        starts = np.asarray(cuts[:-1])
        lows = np.minimum.reduceat(values, starts).tolist()
        highs = np.maximum.reduceat(values, starts).tolist()
    low, high = min(lows), max(highs)
    if low == high:
        return [(0, low, b"")] * len(lows)
    # A base costs a pass: where zero will do, it is zero.
    base = 0 if low >= 0 and _bytes_of(high) == _bytes_of(high - low) else low
    width = _bytes_of(high - base)
    if width == _WIDTH_MAX:
        base = 0
    planes = _planes(values - base if base else values, width)
    if len(lows) == 1:
        return [(width, base, planes.tobytes())]
    out = []
    for lowest, highest, (start, stop) in zip(lows, highs, pairwise(cuts), strict=True):
        if lowest == highest:
            out.append((0, lowest, b""))
        else:
            own = width if width == _WIDTH_MAX else _bytes_of(highest - base)
            out.append((own, base, planes[:own, start:stop].tobytes()))
    return out


def _bytes_of(number: int) -> int:
    return (number.bit_length() + 7) // 8


def _planes(values: np.ndarray, width: int) -> np.ndarray:
    """uint8 [width, n]: the low bytes of all values, then the next. A view."""
    return np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, _WIDTH_MAX)[:, :width].T


def as_decimals(values: np.ndarray) -> tuple[np.ndarray, int] | None:
    """int64 and digits, such that values == int64 / 10**digits bit for bit; None if that is not so."""
    if len(values) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        sample = values[:: -(-len(values) // SAMPLE_ROWS), None]
        matches = (np.rint(sample * POWERS) / POWERS == sample).all(axis=0)
        for digits in range(int(matches.argmax()), DIGITS_MAX + 1):
            if not matches[digits]:
                return None
            scaled = np.rint(values * POWERS[digits])
            if (scaled / POWERS[digits] == values).all():
                # A result below 2**53 is an exact integer; -0.0 would come back as 0.0.
                fits = (
                    np.abs(scaled).max() < _MANTISSA
                    and not (values.view(np.int64) == _NEGATIVE_ZERO_BITS).any()
                )
                return (scaled.astype(np.int64), digits) if fits else None
    return None


def column_bytes(column: Column, rows: int) -> int:
    """Memory that reading a column takes, by its header alone."""
    return rows * _ROW_BYTES_MAX + max(column.extra if column.coding == "text" else 0, 0)


def read_numbers(column: Column, chunk: memoryview, rows: int) -> np.ndarray:
    """int64[rows] of a NUMBERS column.

    Raises:
        ValueError: the header does not fit the bytes.
    """
    if column.type != NUMBERS or column.coding != "ints" or column.nulls:
        raise ValueError(f"column {column.name!r} is not one of plain integers")
    values, rest = _read_ints(column, chunk, rows)
    if len(rest):
        raise ValueError(f"column {column.name!r} has {len(rest)} bytes too many")
    return values


def read_array(column: Column, chunk: memoryview, rows: int, *, trusted: bool) -> pa.Array:
    """The Arrow array of a column.

    Raises:
        ValueError: the header does not fit the bytes, or the values do not fit their type.
    """
    data_type = type_from_name(column.type)
    if pa.types.is_null(data_type):
        if column.coding != "null" or len(chunk):
            raise ValueError(f"column {column.name!r} of nulls has bytes")
        return pa.nulls(rows)
    valid = None
    if column.nulls:
        bits, chunk = _take(chunk, (rows + 7) // 8)
        valid = np.unpackbits(np.frombuffer(bits, np.uint8), count=rows, bitorder="little").astype(np.bool_)
    if column.coding == "text" and is_bytes(data_type):
        array, chunk = _read_text(column, chunk, rows, valid, data_type)
    elif column.coding == "words" and pa.types.is_decimal(data_type):
        planes, chunk = _take(chunk, rows * _DECIMAL_BYTES)
        words = np.frombuffer(planes, np.uint8).reshape(_DECIMAL_BYTES, rows).T
        array = _decimals(np.ascontiguousarray(words).view("<i8"), valid, data_type)
    elif column.coding in ("ints", "scaled") and not is_bytes(data_type):
        values, chunk = _read_ints(column, chunk, rows)
        if column.coding == "scaled":
            values = _unscaled(values, column.extra, data_type).view(np.int64)
        if pa.types.is_decimal(data_type):
            array = _decimals(np.stack((values, values >> np.int64(63)), axis=1), valid, data_type)
        else:
            array = from_int64(values, valid, data_type)
    else:
        raise ValueError(f"column {column.name!r} of type {column.type} is coded as {column.coding!r}")
    if len(chunk):
        raise ValueError(f"column {column.name!r} has {len(chunk)} bytes too many")
    if not trusted:
        if pa.types.is_floating(data_type) and canonical_floats(array) is not array:
            raise ValueError(f"column {column.name!r} has floats that are not canonical")
        array.validate(full=True)
    return array


def _unscaled(values: np.ndarray, digits: int, data_type: pa.DataType) -> np.ndarray:
    if not 0 <= digits <= DIGITS_MAX or not pa.types.is_floating(data_type):
        raise ValueError(f"values scaled by 10**{digits}")
    floats: np.ndarray = values / POWERS[digits]
    return floats


def _take(chunk: memoryview, size: int) -> tuple[memoryview, memoryview]:
    if size < 0 or size > len(chunk):
        raise ValueError("a column reaches over the end")
    return chunk[:size], chunk[size:]


def _read_ints(column: Column, chunk: memoryview, rows: int) -> tuple[np.ndarray, memoryview]:
    width, base = column.width, column.base
    if not 0 <= width <= _WIDTH_MAX:
        raise ValueError(f"integers of {width} bytes")
    if width == 0:
        return np.full(rows, base, np.int64), chunk
    data, rest = _take(chunk, rows * width)
    planes = np.frombuffer(data, np.uint8).reshape(width, rows)
    values = np.zeros(rows, "<i8")
    spread = values.view(np.uint8).reshape(rows, _WIDTH_MAX)
    for place in range(width):
        spread[:, place] = planes[place]
    values = values.astype(np.int64, copy=False)
    if base:
        values += np.int64(base)
    return values, rest


def _read_text(
    column: Column, chunk: memoryview, rows: int, valid: np.ndarray | None, data_type: pa.DataType
) -> tuple[pa.Array, memoryview]:
    lengths, chunk = _read_ints(column, chunk, rows)
    if rows and (int(lengths.min()) < 0 or int(lengths.max()) > column.extra):
        raise ValueError(f"lengths of strings in column {column.name!r}")
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] != column.extra or column.extra >= 1 << 31:
        raise ValueError(f"lengths of strings in column {column.name!r} do not add up")
    text, chunk = _take(chunk, column.extra)
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(bytes(text))]
    return pa.Array.from_buffers(data_type, rows, buffers), chunk


def _decimals(words: np.ndarray, valid: np.ndarray | None, data_type: pa.DataType) -> pa.Array:
    buffers = [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(data_type, len(words), buffers)


def _bitmap(valid: np.ndarray | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())

"""Encoding of one column, laid out for good compression by zstd: narrow integers, byte planes, decimals.

Encodings of a column, after a bitmap of valid rows if it has nulls:

x by their bits, decimals by their low half if the high half is redundant
    scaled   floats that are an integer divided by 10**`extra`: that integer, as `ints`
    words    decimals: 16 byte planes
    text     lengths of strings as `ints`, then `extra` bytes of text
    same     equal to column number `extra` of the block
    null     nothing

Decoding gives exactly the encoded bits. A reader checks every length before it allocates.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt import kernel
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
"""Type of a column that is a plain int64 numpy array."""

DIGITS_MAX = 6
"""Maximum number of digits after the point that are tried for floats."""

POWERS = 10.0 ** np.arange(DIGITS_MAX + 1)
_WIDTH_MAX = 8
_DECIMAL_BYTES = 16
_ROW_BYTES_MAX = 24
"""Maximum memory of a row of any column: 16 bytes of the widest value, or position and length of a string,
and more."""


class Column(msgspec.Struct, array_like=True, frozen=True):
    """Encoding of one column in its chunk; see the module. `type` is NUMBERS for a plain int64 array."""

    name: str
    type: str
    coding: str
    nulls: bool = False
    width: int = 0
    base: int = 0
    extra: int = 0


class Laid(Struct, frozen=True):
    """Analysed column before it is cut into blocks; the properties common to all blocks are computed once.

    `values` (int64) has what is written as integers, `array` what is written in another way.
    """

    column: Column
    values: np.ndarray | None = None
    valid: np.ndarray | None = None
    array: pa.Array | None = None

    def as_array(self) -> pa.Array:
        if self.values is None:
            return self.array
        return _typed(self.column, self.values, self.valid)


def lay_numbers(name: str, values: np.ndarray) -> Laid:
    return Laid(Column(name, NUMBERS, "ints"), values)


def lay_array(name: str, array: pa.Array) -> Laid:
    """Analyse a canonical Arrow array. Cost: nothing for integers, some passes for floats and decimals."""
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
        if (
            pa.types.is_floating(data_type)
            and (scaled := kernel.active.scale_floats(values.view(np.float64))) is not None
        ):
            coding, (values, digits) = "scaled", scaled
    return Laid(Column(name, kind, coding, valid is not None, extra=digits), values, valid)


def write_column(
    laid: Laid, cuts: np.ndarray, order: np.ndarray | None = None
) -> tuple[list[Column], list[bytes]]:
    """Return headers and bytes of the rows between adjacent cuts; integers have one header for all.

    `cuts` (int64, ascending, at least two) are positions in `order`, the rows of the column (None:
    unchanged).
    """
    if laid.values is None:
        return _write_other(laid, cuts, order)
    column = laid.column
    width, base, chunks = kernel.active.pack_ints(laid.values, cuts, order)
    header = Column(column.name, column.type, column.coding, column.nulls, width, base, column.extra)
    if laid.valid is not None:
        bits = _packed_bits(laid.valid, cuts, order)
        chunks = [bitmap + chunk for bitmap, chunk in zip(bits, chunks, strict=True)]
    return [header] * len(chunks), chunks


def _write_other(laid: Laid, cuts: np.ndarray, order: np.ndarray | None) -> tuple[list[Column], list[bytes]]:
    column, array = laid.column, laid.array
    assert array is not None
    spans = list(pairwise(cuts.tolist()))
    if column.coding == "null":
        return [column] * len(spans), [b""] * len(spans)
    bits = _packed_bits(laid.valid, cuts, order)
    array = array if order is None else array.take(pa.array(order))
    if column.coding == "text":
        pieces = [_write_text(column, array, bitmap, *span) for bitmap, span in zip(bits, spans, strict=True)]
        return [header for header, _ in pieces], [chunk for _, chunk in pieces]
    words = decimal_words(array)
    if laid.valid is not None:
        valid = laid.valid if order is None else laid.valid[order]
        words = np.where(valid[:, None], words, 0)
    return [column] * len(spans), [
        bitmap + _word_planes(words[start:stop]) for bitmap, (start, stop) in zip(bits, spans, strict=True)
    ]


def _write_text(
    column: Column, array: pa.Array, bitmap: bytes, start: int, stop: int
) -> tuple[Column, bytes]:
    offsets, text = byte_layout(array)
    offsets = offsets[start : stop + 1]
    rows = np.array([0, stop - start])
    width, base, (lengths,) = kernel.active.pack_ints(np.diff(offsets).astype(np.int64), rows)
    used = text[int(offsets[0]) : int(offsets[-1])]
    header = Column(column.name, column.type, "text", column.nulls, width, base, len(used))
    return header, b"".join((bitmap, lengths, used.tobytes()))


def _word_planes(words: np.ndarray) -> bytes:
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, _DECIMAL_BYTES).T.tobytes()


def _packed_bits(valid: np.ndarray | None, cuts: np.ndarray, order: np.ndarray | None) -> list[bytes]:
    spans = pairwise(cuts.tolist())
    if valid is None:
        return [b""] * (len(cuts) - 1)
    valid = valid if order is None else valid[order]
    return [np.packbits(valid[start:stop], bitorder="little").tobytes() for start, stop in spans]


def chunk_bytes(column: Column, rows: int) -> int:
    size = (rows + 7) // 8 if column.nulls else 0
    if column.coding == "words":
        return size + rows * _DECIMAL_BYTES
    return size + rows * column.width + (column.extra if column.coding == "text" else 0)


def column_bytes(column: Column, rows: int) -> int:
    """Return the memory for decoding a column, from its header alone."""
    return rows * _ROW_BYTES_MAX + max(column.extra if column.coding == "text" else 0, 0)


def read_numbers(column: Column, chunk: memoryview, rows: int) -> np.ndarray:
    if column.type != NUMBERS or column.coding != "ints" or column.nulls:
        raise ValueError(f"column {column.name!r} is not one of plain integers")
    values, rest = _read_ints(column, chunk, rows)
    if len(rest):
        raise ValueError(f"column {column.name!r} has {len(rest)} bytes too many")
    return values


def read_array(column: Column, chunk: memoryview, rows: int, *, trusted: bool) -> pa.Array:
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
        array = _typed(column, values, valid)
    else:
        raise ValueError(f"column {column.name!r} of type {column.type} is coded as {column.coding!r}")
    if len(chunk):
        raise ValueError(f"column {column.name!r} has {len(chunk)} bytes too many")
    if not trusted:
        if pa.types.is_floating(data_type) and canonical_floats(array) is not array:
            raise ValueError(f"column {column.name!r} has floats that are not canonical")
        array.validate(full=True)
    return array


def _typed(column: Column, values: np.ndarray, valid: np.ndarray | None) -> pa.Array:
    data_type = type_from_name(column.type)
    if column.coding == "scaled":
        values = _unscaled(values, column.extra, data_type).view(np.int64)
    if pa.types.is_decimal(data_type):
        return _decimals(np.stack((values, values >> np.int64(63)), axis=1), valid, data_type)
    return from_int64(values, valid, data_type)


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
    data, rest = _take(chunk, rows * width)
    return kernel.active.unpack_ints([(rows, width, base, data)]), rest


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

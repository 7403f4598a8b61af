"""Lists per group as one binary value each, so that a state with many items fits into a column of rows.

Owns the encoding of such values. Does not depend on the meaning of the items.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, decimal_words, from_int64, is_bytes, to_int64
from elfmesh.errors import DataError

_BYTES_MAX = (1 << 31) - 1
_WORD = 4


def pack_words(items: np.ndarray, rows: np.ndarray, count: int) -> pa.Array:
    """Encode fixed-width items, ordered by ascending row, as binary[count]. Cost: a pass over the items."""
    lengths = np.bincount(rows, minlength=count) * items.itemsize
    return from_lengths(lengths, np.ascontiguousarray(items).view(np.uint8).reshape(-1))


def unpack_words(column: pa.Array, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Decode the items and their int64 rows.

    Raises:
        ValueError: A value is not a whole number of items.
    """
    lengths, data = lengths_of(column)
    if (lengths % dtype.itemsize).any():
        raise ValueError("a list of items ends within one")
    counts = lengths // dtype.itemsize
    return data.view(dtype), np.repeat(np.arange(len(counts)), counts)


def from_lengths(lengths: np.ndarray, data: np.ndarray) -> pa.Array:
    """Return binary values that are adjacent in uint8 data.

    Raises:
        DataError: They exceed Arrow's limit of 2 GiB.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _BYTES_MAX:
        raise DataError("the states of one table take more than 2 GiB", hint="Group by fewer keys.")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def lengths_of(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return int64 lengths of binary values without nulls, and their aligned uint8 data."""
    offsets, data = byte_layout(column)
    held = data[int(offsets[0]) : int(offsets[-1])].copy()
    return np.diff(offsets).astype(np.int64), held


def check_binary(column: object, what: str) -> pa.Array:
    """Return the column if it is binary without nulls.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(column, pa.Array) or column.type != pa.binary() or column.null_count:
        raise ValueError(f"{what} is not a binary column without nulls")
    return column


def pack_values(values: pa.Array, rows: np.ndarray, count: int) -> pa.Array:
    """Encode values without nulls of any canonical type, ordered by ascending row, as binary[count].

    Fixed widths are adjacent, eight bytes each (decimals sixteen). Strings: their number, their lengths and
    their bytes, in words of four bytes, padded with zeros; empty if there are no strings.
    """
    if pa.types.is_null(values.type):
        return from_lengths(np.zeros(count, np.int64), np.zeros(0, np.uint8))
    if pa.types.is_decimal(values.type):
        return pack_words(np.ascontiguousarray(decimal_words(values)).view("V16").reshape(-1), rows, count)
    if not is_bytes(values.type):
        return pack_words(to_int64(values)[0], rows, count)
    offsets, data = byte_layout(values)
    sizes = np.diff(offsets).astype(np.int64)
    counts = np.bincount(rows, minlength=count)
    cuts = np.concatenate(([0], np.cumsum(counts)))
    text_ends = offsets[cuts].astype(np.int64)
    text = np.diff(text_ends)
    lengths = np.where(counts > 0, _WORD * (1 + counts) + -(-text // _WORD) * _WORD, 0)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    words, some = out.view("<u4"), np.flatnonzero(counts)
    words[starts[some] // _WORD] = counts[some]
    words[starts[rows] // _WORD + 1 + np.arange(len(rows)) - cuts[rows]] = sizes
    text_starts = starts + _WORD * (1 + counts)
    places = np.arange(int(text.sum())) + np.repeat(text_starts - (text_ends[:-1] - text_ends[0]), text)
    out[places] = data[int(text_ends[0]) : int(text_ends[-1])]
    return from_lengths(lengths, out)


def unpack_values(column: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Decode `pack_values`: the values and their int64 rows.

    Raises:
        ValueError: The bytes are not such lists.
    """
    if pa.types.is_null(data_type):
        if lengths_of(column)[1].size:
            raise ValueError("a list of values of no type")
        return pa.nulls(0), np.zeros(0, np.int64)
    if pa.types.is_decimal(data_type):
        wide, rows = unpack_words(column, np.dtype("V16"))
        return pa.Array.from_buffers(data_type, len(wide), [None, pa.py_buffer(wide)]), rows
    if not is_bytes(data_type):
        numbers, rows = unpack_words(column, np.dtype("<i8"))
        return from_int64(numbers, None, data_type), rows
    lengths, data = lengths_of(column)
    counts, starts = _string_counts(lengths, data)
    rows = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    sizes = data.view("<u4")[starts[rows] // _WORD + 1 + np.arange(len(rows)) - firsts[rows]].astype(np.int64)
    text = np.zeros(len(counts), np.int64)
    np.add.at(text, rows, sizes)
    padded = np.where(counts > 0, _WORD * (1 + counts) + -(-text // _WORD) * _WORD, 0)
    if (padded != lengths).any():
        raise ValueError("a list of strings of a wrong length")
    text_starts = starts + _WORD * (1 + counts)
    places = np.arange(int(text.sum())) + np.repeat(text_starts - (np.cumsum(text) - text), text)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(data_type, len(rows), buffers), rows


def count_values(column: pa.Array, data_type: pa.DataType) -> np.ndarray:
    """Return int64[rows], the number of values of each list, without decoding them."""
    lengths, data = lengths_of(column)
    if is_bytes(data_type):
        return _string_counts(lengths, data)[0]
    return lengths // (16 if pa.types.is_decimal(data_type) else 8)


def _string_counts(lengths: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for lists of strings their numbers of items, and the byte at which each begins."""
    if (lengths % _WORD).any():
        raise ValueError("a list of strings ends within a word")
    starts = np.cumsum(lengths) - lengths
    some = np.flatnonzero(lengths)
    counts = np.zeros(len(lengths), np.int64)
    counts[some] = data.view("<u4")[starts[some] // _WORD]
    if (_WORD * (1 + counts[some]) > lengths[some]).any() or (counts[some] == 0).any():
        raise ValueError("a list of strings says it has more than fit")
    return counts, starts

"""Helpers for whole columns: broadcasting, masks, and functions over distinct values.

A *value* is a pa.Array with one element per row, or a pa.Scalar for a constant column. This module does not
depend on queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.ql.values.growth import check_size, check_taken, limited

Value: TypeAlias = Any
"""A pa.Array with one element per row, or a pa.Scalar."""
Bools = npt.NDArray[np.bool_]


def as_array(value: Value, rows: int) -> pa.Array:
    """Return the column of a value. Raises TooLarge if a constant is too long for so many rows."""
    if isinstance(value, pa.Scalar):
        if not rows or not value.is_valid:
            return pa.nulls(rows, value.type)
        check_size(pa.repeat(value, 1).nbytes * rows)
        return pa.repeat(value, rows)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks() if value.num_chunks != 1 else value.chunk(0)
    return value


def null_mask(array: pa.Array) -> Bools:
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def int_values(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the 64-bit integers of a bigint or timestamp array; 0 for nulls."""
    plain = array.view(pa.int64()) if array.type != pa.int64() else array
    filled = plain.fill_null(0) if plain.null_count else plain
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def list_cuts(array: pa.Array) -> pa.Array:
    """Return the start of each list in the result of `flatten`, and the end of the last one."""
    lengths = np.asarray(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int32)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


KEY, VALUE = "key", "value"
"""Names of the fields of an entry of a map."""


def entries_of(array: pa.Array) -> pa.Array:
    """Convert a map column to a list column of structs with `key` and `value`, without copying them."""
    kind = array.type
    parts = [pa.field(KEY, kind.key_type, nullable=False), pa.field(VALUE, kind.item_type)]
    return array.cast(pa.list_(pa.struct(parts)))


def float_values(array: pa.Array) -> npt.NDArray[np.float64]:
    filled = array.fill_null(0.0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.float64)


def bool_values(array: pa.Array) -> Bools:
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def from_numpy(values: npt.NDArray[Any], null: Bools, kind: pa.DataType) -> pa.Array:
    mask = null if null.any() else None
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, type=pa.int64(), mask=mask).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(values.astype(np.int32), type=pa.int32(), mask=mask).view(kind)
    return pa.array(values, type=kind, mask=mask)


def map_distinct(function: Callable[[Any], Any], array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Apply a Python function to each distinct non-null value, on the dictionary-encoded column."""
    encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    mapped = pa.array(limited(function(value) for value in encoded.dictionary.to_pylist()), type=kind)
    check_taken(mapped, encoded.indices)
    return mapped.take(encoded.indices)


def map_rows(function: Callable[..., Any], kind: pa.DataType, rows: int, *values: Value) -> pa.Array:
    """Apply a Python function row by row; null in, null out. For arguments that are rarely columns."""
    columns = [as_array(value, rows).to_pylist() for value in values]
    return pa.array(
        limited(None if None in row else function(*row) for row in zip(*columns, strict=True)), type=kind
    )


def selected(
    columns: Mapping[str, pa.Array], rows: int, keep: Bools | None
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
    """Return the rows where `keep` is true, and their places; None: all rows."""
    if keep is None or keep.all():
        return _batch(columns, rows), None
    places = np.flatnonzero(keep)
    taken = pa.array(places)
    return _batch(
        {name: as_array(array, rows).take(taken) for name, array in columns.items()}, len(places)
    ), places


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    if columns:
        arrays = [as_array(array, rows) for array in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))

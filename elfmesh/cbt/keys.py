"""Key bytes: the encoding of key columns as one byte string per row, for tables, runs and blocks.

The bytes of a row are the concatenated bytes of its columns:

    marker    only if the column is nullable: 0 if the value is null (nothing follows), else 1
    bool      one byte, 0 or 1
    date32    4 bytes, big-endian, the sign bit flipped
    int64, float64 (its bits), timestamp, time64, duration
              8 bytes, big-endian, the sign bit flipped
    decimal   16 bytes, the unscaled value, big-endian, the sign bit flipped
    string, binary, nested (its sort key)
              the last column: the bytes unchanged, to the end of the key
              any other: 0x00 as 0x00 0xFF, then 0x00 0x00
    null      the marker 0

In one form, two rows have equal bytes exactly if their canonical columns are equal (SQL's GROUP BY). Without
key columns, all rows have the empty key, that is, one global group.

Paper: ELF 2.2 (keys of a PAO are opaque bytes).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    promote,
    to_int64,
    unify,
    valid_mask,
)
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, KeyColumn, KeyOverflow, Keys
from elfmesh.cbt.nested import check_keys, is_nested_key
from elfmesh.errors import DataError

_BYTES = -1
_WIDE_BYTES = 8
_DECIMAL_BYTES = 16
_NEIGHBOURS = 512


TABLE_SEED = hash(b"elfmesh keys") & 0xFFFFFFFFFFFFFFFF
"""Seed of tables of keys, different in every process so that senders cannot choose keys that collide. It does
not affect results."""


class KeyTooLong(DataError):
    """Some rows (int64) have a key longer than KEY_BYTES_MAX. Nothing was inserted."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        super().__init__(
            f"the group-by keys of {len(rows)} rows are longer than {KEY_BYTES_MAX} bytes",
            hint="Group by a shorter column, for example by SUBSTRING(x, 1, 1000).",
        )


class KeyForm(Struct, frozen=True):
    """Form of key bytes: the canonical types of the key columns, and which have a marker for null."""

    types: tuple[pa.DataType, ...]
    nullable: tuple[bool, ...]

    @property
    def plain(self) -> bool:
        """Return whether there is one string or binary column that is never null; its bytes are the key."""
        return len(self.types) == 1 and not self.nullable[0] and is_bytes(self.types[0])

    @property
    def shape(self) -> list[tuple[int, bool]]:
        """Return (width, nullable) per column, for kernels."""
        return [(_width(data_type), null) for data_type, null in zip(self.types, self.nullable, strict=True)]

    def has_bytes_of(self, other: KeyForm) -> bool:
        """Return whether keys of the other form, which unifies to this one, have the same bytes here."""
        decimal, null = pa.types.is_decimal, pa.types.is_null
        types = zip(self.types, other.types, strict=True)
        return self.nullable == other.nullable and all(
            own == old
            or null(old)
            or (decimal(own) and decimal(old))
            or (is_nested_key(own) and is_nested_key(old))
            for own, old in types
        )


def _width(data_type: pa.DataType) -> int:
    if is_bytes(data_type):
        return _BYTES
    if pa.types.is_null(data_type):
        return 0
    if pa.types.is_boolean(data_type):
        return 1
    if pa.types.is_date32(data_type):
        return 4
    return _DECIMAL_BYTES if pa.types.is_decimal(data_type) else _WIDE_BYTES


def form_of(columns: Sequence[pa.Array]) -> KeyForm:
    """Return the form for these canonical columns: plain if possible, else with markers for nulls.

    A marker that is never needed costs almost nothing, because adjacent keys share it. Without it, the first
    null would require encoding all keys of a tree again, and those of all other agents at every merge.
    """
    form = without_nulls(tuple(column.type for column in columns))
    return KeyForm(form.types, (True,)) if form.plain and columns[0].null_count else form


def without_nulls(types: tuple[pa.DataType, ...]) -> KeyForm:
    """Return the result of `form_of` for columns of these types without nulls."""
    plain = len(types) == 1 and is_bytes(types[0])
    return KeyForm(types, (False,) if plain else (True,) * len(types))


def unify_forms(left: KeyForm, right: KeyForm, names: Sequence[str]) -> KeyForm:
    """Return the form for the keys of both; commutative and associative."""
    if left == right:
        return left
    types = tuple(unify(*column) for column in zip(names, left.types, right.types, strict=True))
    nullable = tuple(one or other for one, other in zip(left.nullable, right.nullable, strict=True))
    return KeyForm(types, nullable)


def encode(columns: Sequence[pa.Array], form: KeyForm, rows: int) -> Keys:
    """Encode canonical columns of the form's types or narrower ones. Cost: a copy of all; none if plain.

    Raises ValueError if the keys of all rows together exceed 2 GiB; encode fewer rows then.
    """
    if not columns:
        return Keys(np.zeros(rows + 1, np.int32), np.zeros(0, np.uint8))
    columns = [promote(column, wide) for column, wide in zip(columns, form.types, strict=True)]
    if form.plain:
        offsets, data = byte_layout(columns[0])
        if not _are_short(offsets):
            long = np.flatnonzero(np.diff(offsets) > KEY_BYTES_MAX)
            if len(long):
                raise KeyTooLong(long)
        return Keys(offsets, data)
    parts = [_key_column(column, null) for column, null in zip(columns, form.nullable, strict=True)]
    try:
        return kernel.active.encode_keys(parts, rows)
    except KeyOverflow as error:
        if len(error.rows) == 0:
            raise
        raise KeyTooLong(error.rows) from None


def _are_short(offsets: np.ndarray) -> bool:
    """Return whether even several keys together are within the limit of one. Cost: almost none."""
    if int(offsets[-1]) - int(offsets[0]) <= KEY_BYTES_MAX:
        return True
    ends = np.append(offsets[::_NEIGHBOURS], offsets[-1])
    return bool(np.diff(ends).max(initial=0) <= KEY_BYTES_MAX)


def _key_column(column: pa.Array, nullable: bool) -> KeyColumn:
    width = _width(column.type)
    valid = valid_mask(column)
    if valid is not None and not nullable:
        raise ValueError(f"nulls in a key column of a form without: {column.type}")
    if width == 0:
        return KeyColumn(0, True, None, None, np.zeros(len(column), np.bool_))
    if width == _BYTES:
        return KeyColumn(width, nullable, None, Keys(*byte_layout(column)), valid)
    if width == _DECIMAL_BYTES:
        return KeyColumn(width, nullable, decimal_words(column), None, valid)
    values = to_int64(column)[0]
    narrow = {1: np.uint8, 4: np.int32, 8: np.int64}[width]
    return KeyColumn(width, nullable, values.astype(narrow, copy=False), None, valid)


def decode(keys: Keys, form: KeyForm, *, trusted: bool = True) -> tuple[pa.Array, ...]:
    """Decode the canonical key columns. Cost: a copy of all; none if plain.

    For keys from outside (not `trusted`), raises ValueError unless `encode` returns the same bytes for valid
    values.
    """
    rows = len(keys)
    if not form.types:
        if rows and keys.offsets[-1] != keys.offsets[0]:
            raise ValueError("key bytes without a key column")
        return ()
    if form.plain:
        columns = [_strings(keys, None, form.types[0])]
    else:
        parts = kernel.active.decode_keys(keys, form.shape)
        columns = [_array(part, rows, data_type) for part, data_type in zip(parts, form.types, strict=True)]
    if not trusted:
        for column in columns:
            column.validate(full=True)
            check_keys(column)
        if not form.plain:
            _check_canonical(parts, columns)
    return tuple(columns)


def _check_canonical(parts: Sequence[KeyColumn], columns: Sequence[pa.Array]) -> None:
    for part, column in zip(parts, columns, strict=True):
        if part.width == 1 and part.values is not None and (part.values > 1).any():
            raise ValueError("a boolean key that is neither 0 nor 1")
        if pa.types.is_floating(column.type) and canonical_floats(column) is not column:
            raise ValueError("a float key that is -0.0 or a NaN that is not canonical")


def _array(part: KeyColumn, rows: int, data_type: pa.DataType) -> pa.Array:
    if part.width == 0:
        return pa.nulls(rows)
    if part.strings is not None:
        return _strings(part.strings, part.valid, data_type)
    assert part.values is not None
    if part.width == _DECIMAL_BYTES:
        words = np.ascontiguousarray(part.values, "<i8")
        return pa.Array.from_buffers(data_type, rows, [_bitmap(part.valid), pa.py_buffer(words)])
    return from_int64(part.values.astype(np.int64, copy=False), part.valid, data_type)


def _strings(keys: Keys, valid: np.ndarray | None, data_type: pa.DataType) -> pa.Array:
    offsets = np.ascontiguousarray(keys.offsets, np.int32)
    data = np.ascontiguousarray(keys.data)
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(data_type, len(keys), buffers)


def _bitmap(valid: np.ndarray | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())

"""Canonical columns: the Arrow types of keys and values in the tree, and their unification.

Canonical values have one NaN and no -0.0, so two arrays of one type have equal values exactly where their
bytes are equal. Identity by bytes is therefore the identity of SQL's GROUP BY. Promotion (null -> T, int64 ->
float64, decimal -> wider decimal of the same scale) is commutative and associative, so types do not depend on
the order of batches. Nested values are their sort keys (nested.py).

Paper: ELF 2.2 (the keys of a PAO are opaque bytes there; here they are typed columns).
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from elfmesh.cbt import nested
from elfmesh.cbt.errors import TypeConflict
from elfmesh.errors import DataError

DECIMAL_PRECISION_MAX = 38
"""Digits of a decimal128, Spark's widest decimal."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
DURATION = pa.duration("us")
_NAMED: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": TIMESTAMP,
    "date32": pa.date32(),
    "time64": pa.time64("us"),
    "duration": DURATION,
    "string": pa.string(),
    "binary": pa.binary(),
}
_NAMES = {data_type: name for name, data_type in _NAMED.items()}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(-?\d{1,2})\)")
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NANOS_PER_MICRO = 1_000
_INFINITY_BITS = np.int64(0x7FF0000000000000)
_MINUS_INFINITY_BITS = np.uint64(0xFFF0000000000000)
_NAN_BITS = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO_BITS = np.int64(-(1 << 63))


def type_name(data_type: pa.DataType) -> str:
    """Return the name of a canonical type in headers and messages, such as "int64" or "decimal(10,2)"."""
    if (name := _NAMES.get(data_type)) is not None:
        return name
    if isinstance(data_type, nested.NestedType):
        return data_type.name
    return f"decimal({data_type.precision},{data_type.scale})"


def type_from_name(name: str) -> pa.DataType:
    if (data_type := _NAMED.get(name)) is not None:
        return data_type
    if name.startswith(nested.PREFIX):
        return nested.nested_type(name, type_from_name)
    match = _DECIMAL.fullmatch(name)
    if match is None or not 1 <= int(match[1]) <= DECIMAL_PRECISION_MAX or abs(int(match[2])) > 38:
        raise ValueError(f"{name!r} is not a column type")
    return pa.decimal128(int(match[1]), int(match[2]))


def is_orderable_as_int(data_type: pa.DataType) -> bool:
    """Return whether values take at most 8 bytes and have the order of these bytes as an integer."""
    return data_type in _NAMES and not is_bytes(data_type) and not pa.types.is_null(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether values are strings of bytes; the keys of lists and structs are."""
    types = pa.types
    return bool(
        types.is_string(data_type) or types.is_binary(data_type) or isinstance(data_type, nested.NestedType)
    )


def unify(column: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both. Raises TypeConflict if there is none."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_decimal128(left) and pa.types.is_decimal128(right) and left.scale == right.scale:
        return left if left.precision >= right.precision else right
    if isinstance(left, nested.NestedType) and isinstance(right, nested.NestedType):
        both = nested.unified(left.value_type, right.value_type, lambda one, other: unify(column, one, other))
        if both is not None:
            return nested_type(both)
    raise TypeConflict(column, type_name(left), type_name(right))


def promote(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert a canonical array to a type from `unify`. Cost: nothing if the type is the same."""
    if array.type == data_type:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), data_type)
    if isinstance(data_type, nested.NestedType):
        return nested.retyped(array, data_type)
    # An integer key beyond 2**53 is rounded, and then equals the float with which SQL compares it as equal.
    return array.cast(data_type, safe=False)


def nested_type(kind: pa.DataType) -> nested.NestedType:
    """Return the type of the keys of nested values, of canonical ones.

    Raises ValueError if they cannot be keys.
    """
    return nested.nested_type(nested.nested_name(kind, type_name), type_from_name)


def normalise(values: pa.Array | pa.ChunkedArray, column: str) -> pa.Array:
    """Convert any scalar Arrow array, or one of nested keys, to a canonical one.

    Raises DataError for other nested types and uint64 beyond int64.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if array.type in _NAMES and not pa.types.is_floating(array.type):
        return array
    try:
        return _convert(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(
            f"column {column!r} of type {array.type} cannot be grouped or aggregated: {error}",
            hint="Use numbers, strings, booleans, dates, timestamps, decimals or binary.",
        ) from None


def _convert(array: pa.Array) -> pa.Array:
    data_type = array.type
    types = pa.types
    if types.is_dictionary(data_type):
        return _convert(array.dictionary_decode())
    if (data_type in _NAMES and not types.is_floating(data_type)) or nested.is_nested_key(data_type):
        return array
    if types.is_floating(data_type):
        return canonical_floats(array if data_type == pa.float64() else array.cast(pa.float64()))
    if types.is_integer(data_type):
        return array.cast(pa.int64())
    if types.is_large_string(data_type) or types.is_string_view(data_type):
        return array.cast(pa.string())
    if (
        types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
        or types.is_binary_view(data_type)
    ):
        return array.cast(pa.binary())
    if types.is_timestamp(data_type):
        return _timestamps(array)
    if types.is_date64(data_type):
        return array.cast(pa.date32())
    if types.is_time(data_type):
        return array.cast(pa.time64("us"), safe=False)
    if types.is_duration(data_type):
        return array.cast(pa.duration("us"), safe=False)
    if types.is_decimal(data_type):
        if data_type.precision > DECIMAL_PRECISION_MAX:
            return array.cast(pa.decimal128(DECIMAL_PRECISION_MAX, data_type.scale))
        return array.cast(pa.decimal128(data_type.precision, data_type.scale))
    raise pa.ArrowNotImplementedError("nested types are not scalar")


def _timestamps(array: pa.Array) -> pa.Array:
    """Convert to microseconds since the epoch.

    Times without zone are UTC; nanoseconds are floored, also before 1970.
    """
    unit = array.type.unit
    if unit in _MICROS_PER:
        return array.cast(pa.timestamp("us", tz=array.type.tz)).view(TIMESTAMP)
    nanos, valid = to_int64(array)
    return from_int64(np.floor_divide(nanos, _NANOS_PER_MICRO), valid, TIMESTAMP)


def canonical_floats(array: pa.Array) -> pa.Array:
    """Return float64 with one bit pattern for NaN and none for -0.0."""
    values, valid = to_int64(array)
    if (
        values.min(initial=0) != _NEGATIVE_ZERO_BITS
        and values.max(initial=0) <= _INFINITY_BITS
        and values.view(np.uint64).max(initial=0) <= _MINUS_INFINITY_BITS
    ):
        return array  # no -0.0 and no NaN of either sign, found in three passes without memory
    odd = np.isnan(values.view(np.float64)) & (values != _NAN_BITS)
    negative_zero = values == _NEGATIVE_ZERO_BITS
    if not (odd.any() or negative_zero.any()):
        return array
    return from_int64(np.where(odd, _NAN_BITS, np.where(negative_zero, 0, values)), valid, pa.float64())


def valid_mask(array: pa.Array) -> np.ndarray | None:
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid())


def to_int64(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the values of a fixed-width array (8 bytes, date32 or bool) as int64[n], and the valid rows.

    Floats are returned as their bits. The values of nulls are unspecified.
    """
    if pa.types.is_boolean(array.type) or pa.types.is_date32(array.type):
        array = array.cast(pa.int8() if pa.types.is_boolean(array.type) else pa.int32())
        width: type = np.int8 if pa.types.is_int8(array.type) else np.int32
    else:
        width = np.int64
    size = np.dtype(width).itemsize
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), np.int64), valid_mask(array)
    raw: np.ndarray = np.frombuffer(data, width, len(array), array.offset * size)
    return raw.astype(np.int64, copy=False), valid_mask(array)


def from_int64(values: np.ndarray, valid: np.ndarray | None, data_type: pa.DataType) -> pa.Array:
    """Invert `to_int64`; values of nulls become 0, so that equal columns have equal bytes."""
    null_mask = None if valid is None or bool(valid.all()) else ~valid
    if null_mask is not None:
        values = np.where(null_mask, 0, values)
    if pa.types.is_boolean(data_type):
        return pa.array(values.astype(np.bool_), pa.bool_(), mask=null_mask)
    if pa.types.is_date32(data_type):
        return pa.array(values.astype(np.int32), pa.int32(), mask=null_mask).view(pa.date32())
    if null_mask is None:
        data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
        return pa.Array.from_buffers(data_type, len(values), [None, data])
    return pa.array(values.astype(np.int64, copy=False), pa.int64(), mask=null_mask).view(data_type)


def byte_layout(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the int32 offsets [n + 1] and the uint8 data of a string or binary array."""
    _, offsets, data = array.buffers()
    count = len(array)
    if offsets is None or count == 0:
        return np.zeros(count + 1, np.int32), np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int32, count + 1, array.offset * 4)
    return places, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def decimal_words(array: pa.Array) -> np.ndarray:
    """Return the low and high halves of the unscaled values of a decimal128 array: int64 [n, 2]."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros((len(array), 2), np.int64)
    return np.frombuffer(data, "<i8", 2 * len(array), array.offset * 16).reshape(-1, 2)

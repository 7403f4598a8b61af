"""Types of ELF-QL, and Spark's rules (ANSI off) for the common type of two operands.

Every integer is a bigint and every floating-point number a double; narrower Arrow types are widened. A FLOAT
exists only between CAST(x AS FLOAT) and the operator or cast that uses it.

Deviation: `1.5` is a double here and a decimal in Spark; write `1.5BD` for a decimal in both.
"""

from __future__ import annotations

import pyarrow as pa

from elfmesh.cbt.nested import unified

VOID = pa.null()
BOOLEAN = pa.bool_()
BIGINT = pa.int64()
DOUBLE = pa.float64()
FLOAT = pa.float32()
"""Value of CAST(x AS FLOAT) inside an expression; no column has this type."""
STRING = pa.string()
BINARY = pa.binary()
TIMESTAMP = pa.timestamp("us", tz="UTC")
DATE = pa.date32()
DURATION = pa.duration("us")

PRECISION_MAX = 38
BIGINT_DIGITS = 20
"""Digits of a bigint that is combined with a decimal: DECIMAL(20,0), as in Spark."""

NAMES: dict[pa.DataType, str] = {
    VOID: "VOID", BOOLEAN: "BOOLEAN", BIGINT: "BIGINT", DOUBLE: "DOUBLE", FLOAT: "FLOAT", STRING: "STRING",
    BINARY: "BINARY", TIMESTAMP: "TIMESTAMP", DATE: "DATE", DURATION: "INTERVAL DAY TO SECOND",
}  # fmt: skip
"""Names of plain types in messages."""


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind))


def is_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind))


def is_nested(kind: pa.DataType) -> bool:
    """Return whether values contain other values; expressions cannot add them."""
    return bool(pa.types.is_nested(kind))


def has_map(kind: pa.DataType) -> bool:
    """Return whether values are or contain maps, which have no order and cannot be compared, as in Spark."""
    return is_map(kind) or (
        is_nested(kind) and any(has_map(kind.field(at).type) for at in range(kind.num_fields))
    )


def type_name(kind: pa.DataType) -> str:
    if is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if is_list(kind):
        return f"ARRAY<{type_name(kind.value_type)}>"
    if is_map(kind):
        return f"MAP<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {type_name(field.type)}' for field in kind)}>"
    return NAMES.get(kind, str(kind))


def canonical(kind: pa.DataType) -> pa.DataType | None:
    """Return the ELF-QL type for an Arrow type, or None if expressions cannot use it."""
    types = pa.types
    if types.is_dictionary(kind):
        return canonical(kind.value_type)
    if types.is_null(kind):
        return VOID
    if types.is_boolean(kind):
        return BOOLEAN
    if types.is_integer(kind):
        return BIGINT
    if types.is_decimal(kind):
        return kind if is_decimal(kind) and 0 <= kind.scale <= kind.precision else DOUBLE
    if types.is_floating(kind):
        return DOUBLE
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return STRING
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return BINARY
    if types.is_timestamp(kind):
        return TIMESTAMP
    if types.is_date(kind):
        return DATE
    if types.is_duration(kind):
        return DURATION
    if types.is_list(kind) or types.is_large_list(kind):
        element = canonical(kind.value_type)
        return None if element is None else pa.list_(element)
    if types.is_map(kind):
        key, item = canonical(kind.key_type), canonical(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_struct(kind):
        parts = [(field.name, canonical(field.type)) for field in kind]
        return None if any(part is None for _, part in parts) else pa.struct(parts)
    return None


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Return the decimal type of an exact number that is combined with a decimal."""
    return kind if is_decimal(kind) else pa.decimal128(BIGINT_DIGITS, 0)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type of at most 38 digits; the scale is reduced first, down to six digits."""
    if precision <= PRECISION_MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(PRECISION_MAX, max(PRECISION_MAX - whole, min(scale, 6)))


def _wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type of two different numeric types; None if one is not numeric."""
    if {DOUBLE, FLOAT} & {left, right} and all(
        kind in (BIGINT, DOUBLE, FLOAT) or is_decimal(kind) for kind in (left, right)
    ):
        return FLOAT if {left, right} <= {BIGINT, FLOAT} else DOUBLE
    if all(kind == BIGINT or is_decimal(kind) for kind in (left, right)):
        one, other = as_decimal(left), as_decimal(right)
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        # Spark keeps the integer digits and may drop all fraction digits.
        return pa.decimal128(min(whole + scale, PRECISION_MAX), min(scale, PRECISION_MAX - whole))
    return None


def wider_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the common type in CASE, IF, COALESCE and IN; None if Spark refuses the pair."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    number = _wider_number(left, right)
    if number is not None:
        return number
    if is_nested(left) or is_nested(right):
        return unified(left, right, wider_type)
    pair = {left, right}
    if DURATION in pair:
        return None
    if pair == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return STRING if STRING in pair and not pair & {BOOLEAN, BINARY} else None


def wider_or_renamed(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which IN and nested operands are compared; None if Spark refuses the pair.

    Spark ignores the names of fields if all else is equal.
    """
    return left if _renamed(right, left) == left else wider_type(left, right)


def _renamed(kind: pa.DataType, like: pa.DataType) -> pa.DataType:
    """Return a type with the names of the fields of another one, where both have structs."""
    if is_list(kind) and is_list(like):
        return pa.list_(_renamed(kind.value_type, like.value_type))
    if pa.types.is_struct(kind) and pa.types.is_struct(like) and kind.num_fields == like.num_fields:
        pairs = zip(kind, like, strict=True)
        return pa.struct([(other.name, _renamed(field.type, other.type)) for field, other in pairs])
    return kind


def compared_type(left: pa.DataType, right: pa.DataType, *, equality: bool) -> pa.DataType | None:
    """Return the type in which two operands are compared; None if Spark refuses the pair.

    A string is cast to the number's type, so '5.7' = 5 is true because the string becomes an integer. A
    string that is compared with a decimal becomes a double.
    """
    if is_nested(left) or is_nested(right):
        return None
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    number = _wider_number(left, right)
    if number is not None:
        return number
    pair = {left, right}
    if DURATION in pair:
        return None
    if STRING in pair:
        other = right if left == STRING else left
        return DOUBLE if is_decimal(other) else other
    if pair == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if equality and BOOLEAN in pair:
        other = left if right == BOOLEAN else right
        return other if other in (BIGINT, DOUBLE, FLOAT) or is_decimal(other) else None
    return None

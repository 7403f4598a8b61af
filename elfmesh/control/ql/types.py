"""The types of ELF-QL and Spark's rules (ANSI off) for bringing two of them together.

Seven types: void, boolean, bigint, double, string, timestamp (microseconds, UTC) and date. Every integer is a
bigint, every fractional number a double: narrower Arrow types are widened when a column is read.

Deviation: Spark reads `1.5` as a decimal; here it is a double (the same text with `1.5D` is exact on both).
"""

from __future__ import annotations

import pyarrow as pa

VOID = pa.null()
BOOLEAN = pa.bool_()
BIGINT = pa.int64()
DOUBLE = pa.float64()
STRING = pa.string()
TIMESTAMP = pa.timestamp("us", tz="UTC")
DATE = pa.date32()

NAMES: dict[pa.DataType, str] = {
    VOID: "VOID", BOOLEAN: "BOOLEAN", BIGINT: "BIGINT", DOUBLE: "DOUBLE", STRING: "STRING",
    TIMESTAMP: "TIMESTAMP", DATE: "DATE",
}  # fmt: skip
"""How a type is called in messages."""


def canonical(kind: pa.DataType) -> pa.DataType | None:
    """The type a column of Arrow type `kind` is read as, or None if it cannot be used in expressions."""
    if pa.types.is_dictionary(kind):
        return canonical(kind.value_type)
    if pa.types.is_null(kind):
        return VOID
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return BIGINT
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return DOUBLE
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return STRING
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_date(kind):
        return DATE
    return None


def wider_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type CASE, IF, COALESCE and IN give two operands; None if Spark refuses the pair."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    pair = {left, right}
    if pair == {BIGINT, DOUBLE}:
        return DOUBLE
    if pair == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if STRING in pair and BOOLEAN not in pair:
        return STRING
    return None


def compared_type(left: pa.DataType, right: pa.DataType, *, equality: bool) -> pa.DataType | None:
    """The type in which two operands are compared; None if Spark refuses the pair.

    A string meets a number as that number's type, so '5.7' = 5 is true: the string is cast to an integer.
    """
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    pair = {left, right}
    if STRING in pair:
        return right if left == STRING else left
    if pair == {BIGINT, DOUBLE}:
        return DOUBLE
    if pair == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if equality and BOOLEAN in pair and (BIGINT in pair or DOUBLE in pair):
        return left if right == BOOLEAN else right
    return None

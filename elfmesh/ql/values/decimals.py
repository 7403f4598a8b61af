"""Decimals on whole columns, with Spark's result types and rounding (half up). Overflow is null.

Arithmetic uses 120 digits, so no product or quotient of two 38-digit decimals is truncated before it is
rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.values.columns import int_values, map_distinct, null_mask
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    PRECISION_MAX,
    STRING,
    TIMESTAMP,
    as_decimal,
    bounded_decimal,
    is_decimal,
)

_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
_SECOND_US = 1_000_000


def fitted(value: Decimal, kind: pa.DataType) -> Decimal | None:
    if not value.is_finite() or value.adjusted() > kind.precision:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    return rounded if rounded.adjusted() < kind.precision - kind.scale or not rounded else None


def to_decimal(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert any scalar column to a decimal type. Cost: one Python call per distinct value."""
    given = array.type
    if given == kind:
        return array
    if given == BOOLEAN:
        array = pc.cast(array, BIGINT)
    if given == TIMESTAMP:
        micros = pa.array(int_values(array), mask=null_mask(array))
        return map_distinct(lambda us: fitted(Decimal(us) / _SECOND_US, kind), micros, kind)
    read: Callable[[object], Decimal] = {DOUBLE: _of_double, STRING: _of_text}.get(given, _of_number)

    def one(value: object) -> Decimal | None:
        try:
            return fitted(read(value), kind)
        except InvalidOperation:
            return None

    return map_distinct(one, array, kind)


def _of_number(value: object) -> Decimal:
    return Decimal(str(value))


def _of_double(value: object) -> Decimal:
    return Decimal(repr(value))


def _of_text(value: object) -> Decimal:
    text = str(value).strip("".join(map(chr, range(33))))
    if "_" in text or not text.isascii():
        raise InvalidOperation
    return Decimal(text)


def to_bigint(array: pa.Array) -> pa.Array:
    return map_distinct(_whole, array, BIGINT)


def _whole(value: Decimal) -> int | None:
    whole = int(value)
    return whole if -(2**63) <= whole < 2**63 else None


def to_timestamp(array: pa.Array) -> pa.Array:
    micros = map_distinct(lambda value: _whole(value * _SECOND_US), array, BIGINT)
    return micros.view(TIMESTAMP)


def to_text(array: pa.Array) -> pa.Array:
    """Format as Java writes a BigDecimal: 1.50, 1E-7."""
    return map_distinct(str, array, STRING)


def result_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return Spark's result type of an arithmetic operation on two exact numbers."""
    one, other = as_decimal(left), as_decimal(right)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    if operator in ("+", "-"):
        return bounded_decimal(whole + scale + 1, scale)
    if operator == "*":
        return bounded_decimal(one.precision + other.precision + 1, one.scale + other.scale)
    if operator == "/":
        scale = max(6, one.scale + other.precision + 1)
        return bounded_decimal(one.precision - one.scale + other.scale + scale, scale)
    if operator == "%":
        whole = min(one.precision - one.scale, other.precision - other.scale)
        return bounded_decimal(whole + scale, scale)
    assert operator == "div", operator
    return BIGINT


def arithmetic(operator: str, kind: pa.DataType) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return a kernel for two columns of decimals or bigints. Cost: one Python call per row."""
    exact: Callable[[Decimal, Decimal], Decimal] = {
        "+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply, "/": _WIDE.divide,
        "%": _WIDE.remainder, "div": _WIDE.divide_int,
    }[operator]  # fmt: skip
    divides = operator in ("/", "%", "div")

    def one(a: Decimal | int | None, b: Decimal | int | None) -> Decimal | int | None:
        if a is None or b is None or (divides and not b):
            return None
        value = exact(Decimal(a), Decimal(b))
        return fitted(value, kind) if is_decimal(kind) else _whole(value)

    def over(left: pa.Array, right: pa.Array) -> pa.Array:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([one(a, b) for a, b in pairs], kind)

    return over


def rounded(kind: pa.DataType, digits: int, mode: str) -> tuple[pa.DataType, Callable[[pa.Array], pa.Array]]:
    """Return the result type and the kernel of round, bround, ceil or floor."""
    scale = min(max(digits, 0), kind.scale)
    whole = kind.precision - kind.scale + 1
    # Integer digits that are rounded away still need space.
    precision = max(whole, -digits + 1) if digits < 0 else whole + scale
    gives = pa.decimal128(min(precision, PRECISION_MAX), scale)  # the scale is not reduced
    unit = Decimal(1).scaleb(-min(digits, kind.scale))
    context = Context(prec=120, rounding=mode)

    def one(value: Decimal) -> Decimal | None:
        return fitted(context.multiply(context.divide(value, unit).to_integral_value(mode), unit), gives)

    return gives, lambda array: map_distinct(one, array, gives)


def averages(sums: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    return arithmetic("/", kind)(sums, counts)

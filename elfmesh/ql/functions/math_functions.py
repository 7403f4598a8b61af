"""Mathematical functions on whole columns.

Deviation: exp, ln, log, pow and sqrt are the C library's. Spark's (Java's StrictMath) may differ in the last
digit.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, constant, convert, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_int,
    nothing,
    simple,
)
from elfmesh.ql.values import decimals
from elfmesh.ql.values.cast import saturate
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, map_distinct, null_mask
from elfmesh.ql.values.types import BIGINT, DOUBLE, DURATION, FLOAT, STRING, VOID, is_decimal, type_name

Floats = npt.NDArray[np.float64]
_SCALED = {DOUBLE: pa.decimal128(30, 15), BIGINT: pa.decimal128(20, 0)}
"""Types to which ceil and floor with a number of digits convert first, as in Spark."""


def _number(context: CompileContext, call: Call, args: list[Operand], at: int = 0) -> Operand:
    """Return argument `at` unchanged if it is an exact number, else as a double."""
    operand = args[at]
    return (
        operand
        if operand.type == BIGINT or is_decimal(operand.type)
        else argument(context, call, args, at, DOUBLE)
    )


@function("abs", 1, signature="$(x)")
def _abs(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operand = args[0] if args[0].type in (DURATION, VOID) else _number(context, call, args)
    if operand.type == VOID:
        return operand
    if operand.type not in (BIGINT, DURATION):
        return lift(operand.type, pc.abs, operand)
    zero, negated = pa.scalar(0, operand.type), OPERATORS["neg"](context, call, [operand])
    return lift(operand.type, lambda x, minus: pc.if_else(pc.less(x, zero), minus, x), operand, negated)


@function("positive negative", 1, signature="$(x), or a sign before x")
def _signed(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    (operand,) = args
    if call.name == "negative":
        return OPERATORS["neg"](context, call, args)
    if operand.type not in (BIGINT, DOUBLE, DURATION, STRING, VOID) and not is_decimal(operand.type):
        raise context.error(
            call,
            f"`+` does not work on {type_name(operand.type)}",
            "Leave it out, or write CAST(x AS BIGINT).",
        )
    return convert(operand, DOUBLE) if operand.type == STRING else operand


@function("ceil ceiling floor", 1, 2, signature="$(x[, digits])")
def _whole(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operand = _number(context, call, args)
    digits = literal_int(context, call, args, 1, "the number of digits") if len(args) == 2 else 0
    if digits is None:
        return nothing(operand.type)
    if len(args) == 2 and not is_decimal(operand.type):
        operand = convert(operand, _SCALED[operand.type])
    if is_decimal(operand.type):
        return _rounded(operand, digits, ROUND_FLOOR if call.name == "floor" else ROUND_CEILING)
    if operand.type == BIGINT:
        return operand
    cut = np.floor if call.name == "floor" else np.ceil
    return lift_arrays(
        BIGINT, lambda x: from_numpy(saturate(cut(float_values(x))), null_mask(x), BIGINT), operand
    )


@function("round bround", 1, 2, signature="$(x[, digits])")
def _round(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    digits = literal_int(context, call, args, 1, "the number of digits") if len(args) == 2 else 0
    operand = _number(context, call, args)
    if digits is None:
        return nothing(operand.type)
    mode = ROUND_HALF_UP if call.name == "round" else ROUND_HALF_EVEN
    if is_decimal(operand.type):
        return _rounded(operand, digits, mode)
    if operand.type == BIGINT:
        if digits >= 0:
            return operand
        return lift_arrays(
            BIGINT, lambda x: map_distinct(lambda n: _round_int(n, digits, mode), x, BIGINT), operand
        )
    return lift_arrays(
        DOUBLE, lambda x: map_distinct(lambda n: _round_double(n, digits, mode), x, DOUBLE), operand
    )


def _rounded(operand: Operand, digits: int, mode: str) -> Operand:
    kind, kernel = decimals.rounded(operand.type, min(max(digits, -38), 38), mode)
    return lift_arrays(kind, kernel, operand)


def _round_int(value: int, digits: int, mode: str) -> int | None:
    if digits < -19:
        return 0
    unit = Decimal(1).scaleb(-digits)
    rounded = int((Decimal(value) / unit).quantize(Decimal(1), rounding=mode) * unit)
    return rounded if -(2**63) <= rounded < 2**63 else None


def _round_double(value: float, digits: int, mode: str) -> float:
    """Round the shortest decimal spelling, as Spark does: round(2.675, 2) is 2.68."""
    if not np.isfinite(value):
        return value
    exact = Decimal(repr(value))
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent <= digits:
        return value + 0.0
    if exact.adjusted() < -digits - 1:
        return 0.0
    unit = Decimal(1).scaleb(-digits)
    return float((exact / unit).to_integral_value(rounding=mode) * unit) + 0.0


def _positive_only(kernel: Callable[[Floats], Floats]) -> Callable[[pa.Array], pa.Array]:
    def over(array: pa.Array) -> pa.Array:
        values = float_values(array)
        null = null_mask(array) | (values <= 0)
        return from_numpy(kernel(np.where(null, 1.0, values)), null, DOUBLE)

    return over


simple("sqrt", [DOUBLE], DOUBLE, pc.sqrt, signature="$(x)")
simple("exp", [DOUBLE], DOUBLE, pc.exp, signature="$(x)")
simple("ln", [DOUBLE], DOUBLE, _positive_only(np.log), arrays=True, signature="$(x)")
simple("log10", [DOUBLE], DOUBLE, _positive_only(np.log10), arrays=True, signature="$(x)")
simple("log2", [DOUBLE], DOUBLE, _positive_only(np.log2), arrays=True, signature="$(x)")


def _power(base: pa.Array, exponent: pa.Array) -> pa.Array:
    """Power as in Java: NaN if the exponent is NaN, and for 1 or -1 with an infinite exponent (1 in C)."""
    bases, exponents = float_values(base), float_values(exponent)
    with np.errstate(all="ignore"):
        values = np.power(bases, exponents)
    nan = np.isnan(exponents) | (np.isinf(exponents) & (np.abs(bases) == 1))
    values = np.where(nan, np.nan, values)
    return from_numpy(values, null_mask(base) | null_mask(exponent), DOUBLE)


simple("pow power", [DOUBLE, DOUBLE], DOUBLE, _power, arrays=True, signature="$(x, y)")


@function("log", 1, 2, signature="$([base, ]x)")
def _log(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operands = [argument(context, call, args, at, DOUBLE) for at in range(len(args))]
    if len(operands) == 1:
        return lift_arrays(DOUBLE, _positive_only(np.log), operands[0])

    def log_of_base(base: pa.Array, x: pa.Array) -> pa.Array:
        bases, values = float_values(base), float_values(x)
        null = null_mask(base) | null_mask(x) | (bases <= 0) | (values <= 0)
        with np.errstate(all="ignore"):
            result = np.log(np.where(null, 1.0, values)) / np.log(np.where(null, 2.0, bases))
        return from_numpy(result, null, DOUBLE)

    return lift_arrays(DOUBLE, log_of_base, *operands)


@function("sign signum", 1, signature="$(x)")
def _sign(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[0].type == DURATION:
        return lift_arrays(DOUBLE, lambda x: from_numpy(np.sign(int_values(x)), null_mask(x), DOUBLE), *args)
    operand = argument(context, call, args, 0, DOUBLE)
    return lift_arrays(DOUBLE, lambda x: from_numpy(np.sign(float_values(x)), null_mask(x), DOUBLE), operand)


@function("mod", 2, signature="$(x, y)")
def _mod(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return OPERATORS["%"](context, Call("%", call.args, at=call.at), args)


@function("pmod", 2, signature="$(x, y)")
def _pmod(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the remainder with a sign that does not depend on the divisor's: pmod(-7, 3) is 2."""
    for operand in args:
        if operand.type not in (BIGINT, DOUBLE, FLOAT, STRING, VOID) and not is_decimal(operand.type):
            raise context.error(
                call, f"pmod does not work on {type_name(operand.type)}", "Write CAST(x AS BIGINT)."
            )

    def step(name: str, left: Operand, right: Operand) -> Operand:
        return OPERATORS[name](context, Call(name, call.args, at=call.at), [left, right])

    first = step("%", args[0], args[1])
    again = step("%", step("+", first, args[1]), args[1])
    negative = step("<", first, constant(0, BIGINT))
    return lift(first.type, pc.if_else, negative, convert(again, first.type), first)

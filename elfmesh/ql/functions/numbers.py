"""Trigonometry, bit operations, number bases, buckets, and the try_ forms of arithmetic.

Deviation: every integer has 64 bits, so shifts and bit counts are those of a BIGINT.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, constant, convert, lift, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import CompileContext, argument, function, simple
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, map_distinct, null_mask
from elfmesh.ql.values.types import BIGINT, BOOLEAN, DOUBLE, STRING, VOID, type_name

_M64 = 2**64 - 1


def _elementwise(kernel: Callable[..., np.ndarray]) -> Callable[..., pa.Array]:
    def over(*columns: pa.Array) -> pa.Array:
        null = np.logical_or.reduce([null_mask(column) for column in columns])
        with np.errstate(all="ignore"):
            values = kernel(*(float_values(column) for column in columns))
        return from_numpy(np.asarray(values, np.float64), null, DOUBLE)

    return over


_ELEMENTWISE: dict[str, Callable[..., np.ndarray]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "cbrt": np.cbrt, "expm1": np.expm1,
    "degrees": lambda x: x * (180.0 / math.pi), "radians": lambda x: x / 180.0 * math.pi, "rint": np.rint,
    "cot": lambda x: 1 / np.tan(x), "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x),
}  # fmt: skip
for _name, _kernel in _ELEMENTWISE.items():
    simple(_name, [DOUBLE], DOUBLE, _elementwise(_kernel), arrays=True, signature="$(x)")
simple(
    "atan2",
    [DOUBLE, DOUBLE],
    DOUBLE,
    _elementwise(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    arrays=True,
    signature="$(y, x)",
)
simple("hypot", [DOUBLE, DOUBLE], DOUBLE, _elementwise(np.hypot), arrays=True, signature="$(x, y)")


def _log1p(array: pa.Array) -> pa.Array:
    values = float_values(array)
    null = null_mask(array) | (values <= -1)
    return from_numpy(np.log1p(np.where(null, 0.0, values)), null, DOUBLE)


simple("log1p", [DOUBLE], DOUBLE, _log1p, arrays=True, signature="$(x)")


@function("pi e", 0, signature="$()")
def _constant(_context: CompileContext, call: Call, _args: list[Operand]) -> Operand:
    return constant(math.pi if call.name == "pi" else math.e, DOUBLE)


def _factorial(n: int) -> int | None:
    return math.factorial(n) if 0 <= n <= 20 else None


simple(
    "factorial",
    [BIGINT],
    BIGINT,
    lambda x: map_distinct(_factorial, x, BIGINT),
    arrays=True,
    signature="$(n)",
)


# -- bits


def _bits(context: CompileContext, call: Call, args: list[Operand]) -> list[Operand]:
    for operand in args:
        if operand.type not in (BIGINT, STRING, VOID):
            raise context.error(
                call,
                f"`{call.name}` works on integers, not on {type_name(operand.type)}",
                "Write CAST(x AS BIGINT).",
            )
    return [convert(operand, BIGINT) for operand in args]


def _bit_operator(name: str, kernel: Callable[..., pa.Array]) -> None:
    def build(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
        return lift(BIGINT, kernel, *_bits(context, call, args))

    OPERATORS[name] = build


_bit_operator("&", pc.bit_wise_and)
_bit_operator("|", pc.bit_wise_or)
_bit_operator("^", pc.bit_wise_xor)
_bit_operator("~", pc.bit_wise_not)


def _shift(kind: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def over(array: pa.Array, by: pa.Array) -> pa.Array:
        values, places = int_values(array), int_values(by) & 63
        if kind == "left":
            shifted = (values.view(np.uint64) << places.view(np.uint64)).view(np.int64)
        elif kind == "right":
            shifted = values >> places
        else:
            shifted = (values.view(np.uint64) >> places.view(np.uint64)).view(np.int64)
        return from_numpy(shifted, null_mask(array) | null_mask(by), BIGINT)

    return over


for _names, _kind in (("shiftleft", "left"), ("shiftright", "right"), ("shiftrightunsigned", "unsigned")):

    @function(_names, 2, signature="$(x, places)")
    def _shifted(context: CompileContext, call: Call, args: list[Operand], kind: str = _kind) -> Operand:
        return lift_arrays(BIGINT, _shift(kind), *_bits(context, call, args))


OPERATORS["<<"] = lambda context, call, args: lift_arrays(BIGINT, _shift("left"), *_bits(context, call, args))
OPERATORS[">>"] = lambda context, call, args: lift_arrays(
    BIGINT, _shift("right"), *_bits(context, call, args)
)


@function("bit_count", 1, signature="$(x)")
def _bit_count(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    operand = convert(args[0], BIGINT) if args[0].type == BOOLEAN else _bits(context, call, args)[0]
    return lift_arrays(BIGINT, lambda x: map_distinct(lambda n: (n & _M64).bit_count(), x, BIGINT), operand)


@function("bit_get getbit", 2, signature="$(x, place)")
def _bit_get(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(value: int, place: int) -> int | None:
        return (value >> place) & 1 if 0 <= place < 64 else None

    return over_rows(BIGINT, one, *_bits(context, call, args))


# -- bases and buckets


def _in_base(value: int, base: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return digits or "0"


@function("bin", 1, signature="$(n)")
def _bin(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    number = argument(context, call, args, 0, BIGINT)
    return lift_arrays(STRING, lambda x: map_distinct(lambda n: f"{n & _M64:b}", x, STRING), number)


@function("conv", 3, signature="$(digits, from, to)")
def _conv(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str, source: int, target: int) -> str | None:
        if not 2 <= source <= 36 or not 2 <= abs(target) <= 36:
            return None
        digits = text.strip(" ")
        if not digits:
            return None
        negative = digits.startswith("-")
        value = 0
        for character in digits[negative:]:
            digit = int(character, 36) if character.isascii() and character.isalnum() else 99
            if digit >= source:
                break
            value = value * source + digit
            if value > _M64:
                value = _M64
                break
        if negative and target > 0:
            value = _M64 if value > 2**63 else -value & _M64
        if target < 0:
            signed = -value if negative else value if value < 2**63 else value - 2**64
            return ("-" if signed < 0 else "") + _in_base(abs(signed), -target)
        return _in_base(value, target)

    kinds = (STRING, BIGINT, BIGINT)
    return over_rows(STRING, one, *(argument(context, call, args, at, kind) for at, kind in enumerate(kinds)))


@function("width_bucket", 4, signature="$(x, least, most, buckets)")
def _width_bucket(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(value: float, least: float, most: float, count: int) -> int | None:
        if count <= 0 or count >= 2**63 - 1 or least == most or math.isnan(value):
            return None
        if not (math.isfinite(least) and math.isfinite(most)):
            return None
        low, high = min(least, most), max(least, most)
        upward = least < most
        if value < low:
            return 0 if upward else count + 1
        if upward and value >= high:
            return count + 1
        if not upward and value > high:
            return 0
        if upward:
            return int(count * (value - low) / (high - low)) + 1
        return count + 1 if value == low else int(count * (high - value) / (high - low)) + 1

    kinds = (DOUBLE, DOUBLE, DOUBLE, BIGINT)
    return over_rows(BIGINT, one, *(argument(context, call, args, at, kind) for at, kind in enumerate(kinds)))


# -- try_ forms: they equal the plain operators, which are null on failure


_TRY = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%"}


@function(" ".join(_TRY), 2, signature="$(x, y)")
def _try(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    sign = _TRY[call.name]
    return OPERATORS[sign](context, Call(sign, call.args, at=call.at), args)


@function("nanvl", 2, signature="$(x, y)")
def _nanvl(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    x, y = (argument(context, call, args, at, DOUBLE) for at in range(2))
    return lift(DOUBLE, lambda a, b: pc.if_else(pc.fill_null(pc.is_nan(a), False), b, a), x, y)


@function("equal_null", 2, signature="$(x, y)")
def _equal_null(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return OPERATORS["<=>"](context, Call("<=>", call.args, at=call.at), args)

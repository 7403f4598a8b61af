"""Numbers as text, and back: by the formats of Spark's to_char, and with units of bytes and of time.

parse_bytes and parse_duration are not Spark's. They compute exactly and round once, to the nearest double.
Text without a known unit gives null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_int,
    literal_text,
    nothing,
)
from elfmesh.ql.functions.datetime_functions import date_format
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.decimals import fitted
from elfmesh.ql.values.number_format import NumberFormat, NumberFormatError, number_format
from elfmesh.ql.values.types import BIGINT, DATE, DOUBLE, STRING, TIMESTAMP, VOID, is_decimal, type_name

_OF_DOUBLE, _OF_TEXT, _OF_VOID = pa.decimal128(30, 15), pa.decimal128(38, 18), pa.decimal128(10, 0)
"""Types to which Spark converts the numbers that are not decimals."""

_PREFIXES = "KMGTPE"
_BYTES = re.compile(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([kKMGTPE]?i?B)\s*", re.ASCII)
_SECONDS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    **dict.fromkeys(("us", "µs", "μs"), Fraction(1, 10**6)),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
}
_AMOUNT = rf"(\d{{1,30}}(?:\.\d{{0,30}})?|\.\d{{1,30}})\s*({'|'.join(_SECONDS)})\s*"
_ONE_AMOUNT = re.compile(_AMOUNT, re.ASCII)
_AMOUNTS = re.compile(rf"\s*([+-]?)((?:{_AMOUNT}){{1,20}})", re.ASCII)
"""Bounded, so that no text costs more than its length."""

_HINT = "Write '999,999.00', 'S0000', '$99.99' or '9.9PR'."


@function("to_char to_varchar", 2, signature="$(number, '999.99'), or $(time, pattern)")
def _to_char(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    given = args[0].type
    if given in (DATE, TIMESTAMP):
        return date_format(context, call, args)
    if given == VOID:  # also a column whose type is not known yet: its pattern may be one of times
        return nothing(STRING)
    if given not in (BIGINT, DOUBLE, STRING, VOID) and not is_decimal(given):
        raise context.error(
            call.args[0],
            f"{call.name} writes numbers and times, not {type_name(given)}",
            "Write hex(x), base64(x) or decode(x, 'UTF-8') for bytes, CAST(x AS STRING) for a BOOLEAN.",
        )
    shape = _format(context, call, args)
    if shape is None:
        return nothing(STRING)
    number = convert(args[0], {DOUBLE: _OF_DOUBLE, STRING: _OF_TEXT}.get(given, given))
    if given == BIGINT:
        number = convert(number, pa.decimal128(20, 0))
    return lift_arrays(STRING, lambda x: map_distinct(shape.text, x, STRING), number)


@function("to_number try_to_number", 2, signature="$(text, '999.99')")
def _to_number(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = argument(context, call, args, 0, STRING)
    shape = _format(context, call, args)
    if shape is None:
        return nothing(_OF_VOID)
    kind = pa.decimal128(shape.whole + shape.scale, shape.scale)

    def read(given: str) -> Decimal | None:
        value = shape.value(given)
        return None if value is None else fitted(value, kind)  # '1' by '.9' has no place for its digit

    return lift_arrays(kind, lambda x: map_distinct(read, x, kind), text)


def _format(context: CompileContext, call: Call, args: list[Operand]) -> NumberFormat | None:
    text = literal_text(context, call, args, 1, "the number format")
    try:
        return None if text is None else number_format(text)
    except NumberFormatError as error:
        raise context.error(call.args[1], error.message, _HINT) from None


def unit_bytes(unit: str, base: int) -> int | None:
    """Return the bytes of a unit: KiB is 1024, KB is 1000, or 1024 if the base is 2; None if unknown."""
    if unit == "B":
        return 1
    power = _PREFIXES.find(unit[:1].upper()) + 1
    if not power or unit[1:] not in ("B", "iB"):
        return None
    return int((1024 if base == 2 or unit[1:] == "iB" else 1000) ** power)


@function("parse_bytes", 1, 3, signature="$(text[, 'MiB'[, 2]])")
def _parse_bytes(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = argument(context, call, args, 0, STRING)
    unit = literal_text(context, call, args, 1, "the unit") if len(args) > 1 else "B"
    base = literal_int(context, call, args, 2, "the base") if len(args) > 2 else 10
    if unit is None or base is None:
        return nothing(DOUBLE)
    if base not in (2, 10):
        raise context.error(
            call.args[2], f"the base of parse_bytes is 2 or 10, not {base}", "KB is 1024 or 1000."
        )
    whole = unit_bytes(unit, base)
    if whole is None:
        raise context.error(
            call.args[1], f"{unit!r} is not a unit of bytes", "Write 'B', 'KB', 'MiB' or 'GB'."
        )

    def read(given: str) -> float | None:
        match = _BYTES.fullmatch(given)
        size = unit_bytes(match[2], base) if match else None
        return None if match is None or size is None else float(Fraction(match[1]) * size / whole)

    return lift_arrays(DOUBLE, lambda x: map_distinct(read, x, DOUBLE), text)


@function("parse_duration", 1, 2, signature="$(text[, 'ms'])")
def _parse_duration(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    text = argument(context, call, args, 0, STRING)
    unit = literal_text(context, call, args, 1, "the unit") if len(args) > 1 else "s"
    if unit is None:
        return nothing(DOUBLE)
    whole = _SECONDS.get(unit)
    if whole is None:
        raise context.error(call.args[1], f"{unit!r} is not a unit of time", f"One of {', '.join(_SECONDS)}.")

    def read(given: str) -> float | None:
        match = _AMOUNTS.fullmatch(given)
        if match is None:
            return None
        seconds = sum(
            (Fraction(amount) * _SECONDS[name] for amount, name in _ONE_AMOUNT.findall(match[2])), Fraction(0)
        )
        return float((-seconds if match[1] == "-" else seconds) / whole)

    return lift_arrays(DOUBLE, lambda x: map_distinct(read, x, DOUBLE), text)

"""Numbers as text by the formats of Spark's to_char, and back: to_char, to_varchar, to_number."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
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

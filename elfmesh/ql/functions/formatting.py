"""Numbers and values as formatted text: format_number, and format_string after Java's Formatter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from decimal import Context as DecimalContext
from typing import Any

import pyarrow as pa
from msgspec import Struct

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
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.values.cast import format_double
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.number_pattern import (
    NumberPattern,
    NumberPatternError,
    digits_pattern,
    number_pattern,
)
from elfmesh.ql.values.types import BIGINT, DOUBLE, STRING, VOID, is_decimal, is_nested, type_name

DIGITS_MAX, WIDTH_MAX = 320, 10_000
_WIDE = DecimalContext(prec=700)
_CONVERSION = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_HINT = "There are %s %d %x %o %f %e %c %b, with flags - 0 + and a comma, width and precision."


def _exact(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _is_special(value: Any) -> bool:
    return isinstance(value, float) and value - value != 0


@function("format_number", 2, signature="$(x, digits), or $(x, '#,##0.00')")
def _format_number(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    exact = args[0].type == BIGINT or is_decimal(args[0].type)
    number = args[0] if exact else argument(context, call, args, 0, DOUBLE)
    pattern = _number_pattern(context, call, args)
    if pattern is None:
        return nothing(STRING)

    def one(value: Any) -> str:
        negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
        if _is_special(value):
            return "NaN" if value != value else pattern.infinite(negative)
        return pattern.text(Decimal(value), negative)  # the exact value of the double: 2.675 is slightly less

    return lift_arrays(STRING, lambda x: map_distinct(one, x, STRING), number)


def _number_pattern(context: CompileContext, call: Call, args: list[Operand]) -> NumberPattern | None:
    """Return the pattern for the second argument of format_number; None for null and for too many digits."""
    if args[1].type == STRING:
        text = literal_text(context, call, args, 1, "the pattern")
        try:
            return None if text is None else number_pattern(text)
        except NumberPatternError as error:
            raise context.error(call.args[1], str(error), "Write digits, or a pattern: '#,##0.00'.") from None
    digits = literal_int(context, call, args, 1, "the number of digits")
    return None if digits is None or not 0 <= digits <= DIGITS_MAX else digits_pattern(digits)


@function("format_string printf", 1, None, signature="$(format, x, ...)")
def _format_string(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    shape = literal_text(context, call, args, 0, "the format")
    for at, operand in enumerate(args[1:], 1):
        if is_nested(operand.type):
            raise context.error(
                call.args[at],
                f"{call.name} does not take {type_name(operand.type)}",
                "Write to_json(x) for a list or map, CAST(x AS STRING) for bytes.",
            )
    if shape is None:
        return nothing(STRING)
    pieces = _pieces(context, call, shape, [operand.type for operand in args[1:]])
    plain = [
        operand if operand.type in (BIGINT, DOUBLE) or is_decimal(operand.type) else convert(operand, STRING)
        for operand in args[1:]
    ]

    def write(*values: Any) -> str:
        return "".join(
            piece if isinstance(piece, str) else piece.text(values[piece.place]) for piece in pieces
        )

    if not plain:
        text = pa.scalar(write(), STRING)
        return Operand(STRING, lambda _env: text, constant=True)
    return over_rows(STRING, write, *plain, nulls=True)


class _Piece(Struct, frozen=True):
    """Conversion in a format: the position of its value, letter, flags, least width, and precision."""

    place: int
    letter: str
    flags: str
    width: int
    precision: int | None

    def fits(self, kind: pa.DataType) -> bool:
        letter = self.letter.lower()
        if letter in "sb":
            return True
        if kind == VOID:
            return letter in "dxocfe"
        if letter in "dxoc":
            return kind == BIGINT and self.precision is None
        return letter in "fe" and (kind == DOUBLE or is_decimal(kind))

    def text(self, value: Any) -> str:
        if value is None and self.letter.lower() != "b":
            shown = "null"[: self.precision]
        elif _is_special(value) and self.letter.lower() != "s":
            shown = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        else:
            shown = self._written(value)
            if "0" in self.flags and self.letter in "dfxXo":
                shown = shown.zfill(self.width)
        shown = shown.upper() if self.letter.isupper() else shown
        return shown.ljust(self.width) if "-" in self.flags else shown.rjust(self.width)

    def _written(self, value: Any) -> str:
        sign = "+" if "+" in self.flags else " " if " " in self.flags else ""
        comma = "," if "," in self.flags else ""
        places = 6 if self.precision is None else self.precision
        ways: dict[str, Callable[[], str]] = {
            "s": lambda: (format_double(value) if isinstance(value, float) else str(value))[: self.precision],
            "b": lambda: "false" if value in (None, "false") else "true",
            "d": lambda: f"{value:{sign}{comma}d}",
            "x": lambda: f"{value & (2**64 - 1):x}",
            "o": lambda: f"{value & (2**64 - 1):o}",
            "c": lambda: chr(value) if 0 <= value < 0x110000 else "?",
            "f": lambda: f"{_half_up(value, places):{sign}{comma}.{places}f}",
            "e": lambda: f"{value:{sign}.{places}e}",
        }
        return ways[self.letter.lower()]()


def _half_up(value: Any, places: int) -> Decimal:
    return _exact(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)


def _pieces(context: CompileContext, call: Call, shape: str, kinds: list[pa.DataType]) -> list[str | _Piece]:
    """Split a format into strings and conversions.

    Raises QueryError if a conversion does not fit its value.
    """
    pieces: list[str | _Piece] = []
    next_place = last = 0
    for match in _CONVERSION.finditer(shape):
        pieces.append(shape[last : match.start()])
        last = match.end()
        number, flags, width, precision, letter = match.groups()
        if letter in "%n":
            pieces.append("%" if letter == "%" else "\n")
            continue
        place = int(number) - 1 if number else next_place
        next_place += not number
        if not 0 <= place < len(kinds):
            raise context.error(
                call.args[0],
                f"the format needs {place + 1} values but the call has {len(kinds)}",
                "Write a value for each `%` of the format; `%%` is a percent sign.",
            )
        piece = _Piece(place, letter, flags, int(width or 0), None if precision is None else int(precision))
        if not piece.fits(kinds[place]) or "(" in flags or "#" in flags:
            raise context.error(call.args[0], f"{match[0]} cannot format {type_name(kinds[place])}", _HINT)
        if piece.width > WIDTH_MAX or (piece.precision or 0) > DIGITS_MAX:
            raise context.error(
                call.args[0], f"{match[0]} is too wide", "Write a smaller width; lpad(x, n) makes long texts."
            )
        pieces.append(piece)
    pieces.append(shape[last:])
    stray = [text for text in (_CONVERSION.split(shape)[::6]) if "%" in text]
    if stray:
        raise context.error(
            call.args[0], f"the format contains an incomplete conversion in {stray[0]!r}", _HINT
        )
    return pieces

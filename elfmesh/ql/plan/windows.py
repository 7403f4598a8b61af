"""Translation of TUMBLE, HOP, SESSION, ROWS and Spark's spellings to lengths.

HOP is (column, slide, size); Spark's window is (column, size[, slide]); SESSION and session_window are
(column, gap). The column is optional and defaults to `ts`. ROWS is (number[, step]). Months are refused
because they have no fixed length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import gcd
from typing import Any, Protocol

from sqlglot import exp

from elfmesh.errors import ConfigError, QueryError
from elfmesh.ql.expressions.nodes import Duration, Expr, FieldRef, Literal, WindowCall
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.statement import ROWS, SESSION
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.values.intervals import span_us
from elfmesh.units import format_duration, parse_duration_us, unit_us

TIME_COLUMN = "ts"
"""Event time of a record; every format has this column."""

PANES_MAX = 10_000
"""Maximum number of panes in one window, because the state and the merge of an interval grow with them."""

ROWS_MAX = 1_000_000
"""Maximum number of records of a window of ROWS, and of its step, because a group keeps them."""

_SHAPES = {
    "tumble": "TUMBLE(ts, INTERVAL '30' SECOND)",
    "hop": "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND) (slide, then size)",
    "window": "window(ts, '30 seconds') or window(ts, '30 seconds', '10 seconds') (size, then slide)",
    "session": "SESSION(ts, INTERVAL '5' MINUTE)",
    "session_window": "session_window(ts, '5 minutes')",
    "rows": "ROWS(100), or ROWS(100, 10) (number of records, then step)",
}


_PAIR = re.compile(r"\s*([+-]?)\s*(\d*\.?\d+\s*[a-z]+)\s*", re.I)
_BEYOND_MICROS = re.compile(r"(\.\d{6})\d+(?= s)", re.I)
"""Digits of seconds that Spark cuts off."""

_TO_MONTH = ("YEAR", "MONTH")
_YEARS_MONTHS = re.compile(r"([+-]?)(\d{1,4})-(\d|1[01])")
_MONTHS = re.compile(r"(-?\d{1,6}) (months?|quarters?|years?)")


class Complain(Protocol):
    """Constructor of the error at a node."""

    def __call__(self, node: Any, message: str, hint: str = "") -> QueryError: ...


def fixed_duration_us(node: exp.Interval, error: Complain) -> int:
    """Return the microseconds of an INTERVAL.

    Raises QueryError for months and years.
    """
    unit, value = node.args.get("unit"), node.this
    hint = "Write INTERVAL '30' SECOND or INTERVAL 5 MINUTES."
    if isinstance(unit, exp.IntervalSpan) and isinstance(value, exp.Literal):
        us = span_us(value.name, unit.name.upper(), unit.expression.name.upper())
        if us is None or not -(2**63) <= us < 2**63:
            hint = "Write INTERVAL '1 02:03:04.5' DAY TO SECOND, or ts + INTERVAL '1-2' YEAR TO MONTH."
            raise error(node, f"INTERVAL {value.sql()} is no length from {unit.sql()}", hint)
        return us
    if unit is not None and not isinstance(unit, exp.Var):
        raise error(node, "INTERVAL takes one unit", hint)
    sign = 1
    if isinstance(value, exp.Neg):
        sign, value = -1, value.this
    if not isinstance(value, exp.Literal):
        raise error(node, "INTERVAL takes a constant", hint)
    text = _written(node)
    if unit is not None and unit_us(unit.name) is None:
        raise error(node, f"an INTERVAL of {unit.name} has no fixed length", hint)
    try:
        return sign * _length_of(text)
    except ConfigError:
        raise error(node, f"INTERVAL '{_written(node)}' is not a duration of fixed length", hint) from None


def _length_of(text: str) -> int:
    """Return the microseconds of numbers and units, each with its sign. Raises ConfigError."""
    total = end = 0
    while (match := _PAIR.match(text, end)) is not None:
        us = parse_duration_us(_BEYOND_MICROS.sub(r"\1", match[2]))
        total, end = total + (-us if match[1] == "-" else us), match.end()
    return total if end == len(text) > 0 else parse_duration_us(text)


def _written(node: exp.Interval) -> str:
    """Return number and unit as they are written, because sqlglot reads only the first pair of a text."""
    given, unit = str(node.meta.get("written", "")), node.args.get("unit")
    if any(each.isalpha() for each in given):
        return given.strip().lower().removeprefix("interval").strip()
    return node.this.name if unit is None else f"{node.this.name} {unit.name}"


def interval_months(node: object) -> int | None:
    """Return the months of an INTERVAL of whole months, quarters or years; None for anything else."""
    if not isinstance(node, exp.Interval):
        return None
    unit, value, sign = node.args.get("unit"), node.this, 1
    if isinstance(value, exp.Neg):
        sign, value = -1, value.this
    if not isinstance(value, exp.Literal):
        return None
    if isinstance(unit, exp.IntervalSpan) and (unit.name.upper(), unit.expression.name.upper()) == _TO_MONTH:
        months = _YEARS_MONTHS.fullmatch(value.name.strip())
        return months and (-sign if months[1] == "-" else sign) * (int(months[2]) * 12 + int(months[3]))
    text = _written(node)
    match = _MONTHS.fullmatch(text.strip().lower())
    if match is None:
        return None
    return sign * int(match[1]) * {"m": 1, "q": 3, "y": 12}[match[2][0]]


def window_call(
    name: str, node: exp.Anonymous, translate: Callable[[Any], Expr], error: Complain, at: TextPosition
) -> WindowCall:
    """Return the window of a call of TUMBLE, HOP, SESSION, window or session_window."""
    shape = f"Write {_SHAPES[name]}."
    args = [translate(arg) for arg in node.expressions]
    column = TIME_COLUMN
    if args and isinstance(args[0], FieldRef):
        column, args = args[0].path, args[1:]
    lengths = [_length_us(arg, node, error, shape) for arg in args]
    most = 2 if name in ("hop", "window") else 1
    least = 2 if name == "hop" else 1
    if not least <= len(lengths) <= most:
        off = len(lengths) > most and not name.startswith("session")
        extra = " A window with an offset from the epoch is not supported." if off else ""
        raise error(node, f"{name} does not take these arguments", shape + extra)
    if name == "hop":
        slide, size = lengths
    else:
        size = lengths[0]
        slide = lengths[1] if len(lengths) == 2 else size
    if slide > size:
        raise error(
            node,
            f"the window slides by {format_duration(slide)} but is only {format_duration(size)} wide",
            f"{shape} The slide is at most the size, or records would fall between windows.",
        )
    kind = SESSION if name.startswith("session") else "tumble" if slide == size else "hop"
    call = WindowCall(kind, column, size, slide, at=at)
    if size // gcd(size, slide) > PANES_MAX:
        raise error(node, f"the window is cut into more than {PANES_MAX} panes", "Make the slide longer.")
    return call


def rows_call(translator: Translating, node: exp.Anonymous) -> WindowCall:
    """Return the window of a call ROWS(n[, step]). Raises QueryError."""
    shape, numbers = f"Write {_SHAPES[ROWS]}.", []
    for arg in node.expressions:
        number = translator.expr(arg)
        if not (isinstance(number, Literal) and number.kind == "bigint" and isinstance(number.value, int)):
            raise translator.error(arg, "ROWS takes numbers of records, which are constants", shape)
        if not 1 <= number.value <= ROWS_MAX:
            message = f"ROWS takes numbers from 1 to {ROWS_MAX}, not {number.value}"
            raise translator.error(arg, message, shape)
        numbers.append(number.value)
    if not 1 <= len(numbers) <= 2:
        raise translator.error(node, f"ROWS takes one or two numbers, not {len(numbers)}", shape)
    at = translator.place(node)
    return WindowCall(ROWS, TIME_COLUMN, 0, 0, at=at, rows=numbers[0], step=numbers[-1])


def _length_us(arg: Expr, node: exp.Anonymous, error: Complain, shape: str) -> int:
    if isinstance(arg, Duration):
        us = arg.us
    elif isinstance(arg, Literal) and isinstance(arg.value, str):
        try:
            us = parse_duration_us(arg.value.lower().removeprefix("interval"))
        except ConfigError as problem:
            raise error(node, problem.message, shape) from None
    else:
        raise error(node, "the column of a window is a field, its lengths are constants", shape)
    if us <= 0:
        raise error(node, "the size of a window must be greater than zero", shape)
    return us

"""Date and time functions. The session's time zone is UTC; no function reads a clock.

Spark's implicit conversions apply: a string argument is cast to a time, and is null if it is not one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift, lift_arrays
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_text,
    nothing,
    simple,
)
from elfmesh.ql.expressions.time_arithmetic import add_days
from elfmesh.ql.values.cast import cast, castable, target_type
from elfmesh.ql.values.civil import DAY_US, SECOND_US
from elfmesh.ql.values.columns import from_numpy, int_values, null_mask
from elfmesh.ql.values.patterns import PatternError, reader, writer
from elfmesh.ql.values.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    VOID,
    type_name,
)

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
_PATTERN_HINT = (
    "Letters are y M d E D Q H h a m s S Z X, and to write also G L F k K z O; text stands in 'quotes'."
)
_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mon": "month",
    "mm": "month", "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute",
    "second": "second", "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def naive(stamps: pa.Array) -> pa.Array:
    """UTC timestamps without a zone, so that Arrow needs no time zone database."""
    return stamps.view(pa.int64()).view(pa.timestamp("us"))


def _part(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    return lambda array: pc.cast(kernel(array if array.type == DATE else naive(array)), BIGINT)


def _day_of_week(days: pa.Array) -> pa.Array:
    """1 is Sunday."""
    return pc.day_of_week(days, count_from_zero=False, week_start=7)


for _names, _kernel in (
    ("year", pc.year), ("quarter", pc.quarter), ("month", pc.month), ("day dayofmonth", pc.day),
    ("dayofyear", pc.day_of_year), ("dayofweek", _day_of_week), ("weekday", pc.day_of_week),
    ("weekofyear", pc.iso_week),
):  # fmt: skip
    simple(_names, [DATE], BIGINT, _part(_kernel), arrays=True, signature="$(date)")
for _names, _kernel in (("hour", pc.hour), ("minute", pc.minute), ("second", pc.second)):
    simple(_names, [TIMESTAMP], BIGINT, _part(_kernel), arrays=True, signature="$(time)")


def _pattern(
    context: CompileContext,
    call: Call,
    args: list[Operand],
    at: int,
    make: Callable[[str], Callable[[pa.Array], pa.Array]],
) -> Callable[[pa.Array], pa.Array] | None:
    """Return the compiled pattern in argument `at`; None for NULL."""
    text = literal_text(context, call, args, at, "the pattern")
    if text is None:
        return None
    try:
        return make(text)
    except PatternError as error:
        raise context.error(call, f"the pattern {text!r}: {error}", _PATTERN_HINT) from None


# -- parsing and formatting


@function("to_timestamp to_timestamp_ltz try_to_timestamp", 1, 2, signature="$(x[, pattern])")
def _to_timestamp(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) == 1:
        if args[0].type in (BIGINT, DOUBLE):
            return convert(args[0], TIMESTAMP)
        if args[0].type == BOOLEAN:  # Spark converts it to a string, which is not a time
            return convert(convert(args[0], STRING), TIMESTAMP)
        return argument(context, call, args, 0, TIMESTAMP)
    return _read(context, call, args, TIMESTAMP)


@function("to_date", 1, 2, signature="$(x[, pattern])")
def _to_date(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if len(args) == 1:
        return argument(context, call, args, 0, DATE)
    return convert(_read(context, call, args, TIMESTAMP), DATE)


def _read(context: CompileContext, call: Call, args: list[Operand], kind: pa.DataType) -> Operand:
    if args[0].type in (DATE, TIMESTAMP):
        return convert(args[0], kind)
    if args[0].type not in (STRING, VOID):
        raise context.error(
            call,
            f"{call.name} reads strings by a pattern, not {type_name(args[0].type)}",
            "Leave the pattern out, or write CAST(x AS STRING).",
        )
    read = _pattern(context, call, args, 1, reader)
    return nothing(kind) if read is None else lift_arrays(kind, read, convert(args[0], STRING))


@function("date_format", 2, signature="$(time, pattern)")
def date_format(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Build `date_format`, which to_char is for times."""
    operand = argument(context, call, args, 0, TIMESTAMP)
    write = _pattern(context, call, args, 1, writer)
    return nothing(STRING) if write is None else lift_arrays(STRING, lambda x: write(naive(x)), operand)


@function("from_unixtime", 1, 2, signature="$(seconds[, pattern])")
def _from_unixtime(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    seconds = argument(context, call, args, 0, BIGINT)
    write = writer(DEFAULT_PATTERN) if len(args) == 1 else _pattern(context, call, args, 1, writer)
    if write is None:
        return nothing(STRING)
    return lift_arrays(STRING, lambda x: write(naive(x)), convert(seconds, TIMESTAMP))


@function("unix_timestamp to_unix_timestamp", 1, 2, signature="$(x[, pattern])")
def _unix_timestamp(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    kind = args[0].type
    if kind in (DATE, TIMESTAMP):
        stamp = convert(args[0], TIMESTAMP)
    elif kind in (STRING, VOID):
        read = reader(DEFAULT_PATTERN) if len(args) == 1 else _pattern(context, call, args, 1, reader)
        stamp = nothing(TIMESTAMP) if read is None else lift_arrays(TIMESTAMP, read, convert(args[0], STRING))
    else:
        raise context.error(
            call, f"{call.name} reads times and strings, not {type_name(kind)}", "Write CAST(x AS TIMESTAMP)."
        )

    def seconds(array: pa.Array) -> pa.Array:
        micros = int_values(array)  # truncated towards zero, unlike unix_seconds
        return from_numpy(np.sign(micros) * (np.abs(micros) // SECOND_US), null_mask(array), BIGINT)

    return lift_arrays(BIGINT, seconds, stamp)


def _epoch(stamp: Operand, unit_us: int) -> Operand:
    return lift_arrays(BIGINT, lambda x: from_numpy(int_values(x) // unit_us, null_mask(x), BIGINT), stamp)


for _name, _unit in (("unix_seconds", SECOND_US), ("unix_millis", 1000), ("unix_micros", 1)):

    @function(_name, 1, signature="$(time)")
    def _unix(context: CompileContext, call: Call, args: list[Operand], unit: int = _unit) -> Operand:
        return _epoch(argument(context, call, args, 0, TIMESTAMP), unit)


for _name, _unit in (("timestamp_seconds", SECOND_US), ("timestamp_millis", 1000), ("timestamp_micros", 1)):

    @function(_name, 1, signature="$(number)")
    def _timestamp_of(context: CompileContext, call: Call, args: list[Operand], unit: int = _unit) -> Operand:
        kind = args[0].type
        if kind not in (BIGINT, VOID) and not (kind == DOUBLE and unit == SECOND_US):
            raise context.error(
                call, f"{call.name} takes an integer, not {type_name(kind)}", "Write CAST(x AS BIGINT)."
            )
        if kind == DOUBLE:
            return convert(args[0], TIMESTAMP)
        edge = (2**63 - 1) // unit

        def over(array: pa.Array) -> pa.Array:
            values = int_values(array)
            inside = (values >= -edge) & (values <= edge)
            return from_numpy(values * unit * inside, null_mask(array) | ~inside, TIMESTAMP)

        return lift_arrays(TIMESTAMP, over, convert(args[0], BIGINT))


@function("date", 1, signature="$(x)")
@function("timestamp", 1, signature="$(x)")
@function("bigint int smallint tinyint double float decimal string binary boolean", 1, signature="$(x)")
def _cast_by_name(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    target, source = call.name.upper(), args[0].type
    target = "DECIMAL(10,0)" if target == "DECIMAL" else target
    if not castable(source, target):
        raise context.error(
            call,
            f"{type_name(source)} cannot be cast to {target}",
            "Cast it to STRING first, or take the part that is needed.",
        )
    return lift_arrays(target_type(target), lambda array: cast(array, target), args[0])


# -- truncation and differences


@function("date_trunc", 2, signature="$('unit', time)")
def _date_trunc(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    unit = literal_text(context, call, args, 0, "the unit")
    operand = argument(context, call, args, 1, TIMESTAMP)
    return nothing(TIMESTAMP) if unit is None else _truncated(context, call, operand, unit, list(_UNITS))


@function("trunc", 2, signature="$(date, 'unit')")
def _trunc(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    unit = literal_text(context, call, args, 1, "the unit")
    operand = convert(argument(context, call, args, 0, DATE), TIMESTAMP)
    if unit is None:
        return nothing(DATE)
    return convert(_truncated(context, call, operand, unit, list(_UNITS)[:8]), DATE)


def _truncated(
    context: CompileContext, call: Call, operand: Operand, unit: str, allowed: list[str]
) -> Operand:
    name = _UNITS.get(unit.lower()) if unit.lower() in allowed else None
    if name is None:
        # Spark returns null for every row here, which is never intended.
        hint = "Write 'QUARTER'." if unit.lower() == "q" else f"There are {', '.join(allowed)}."
        raise context.error(call, f"{call.name} does not support the unit {unit!r}", hint)
    return lift_arrays(
        TIMESTAMP, lambda x: pc.floor_temporal(naive(x), unit=name).view(pa.int64()).view(TIMESTAMP), operand
    )


@function(
    "datediff date_diff", 2,
    signature="$(end, start) for days, unix_seconds(end) - unix_seconds(start) for smaller units",
)  # fmt: skip
def _datediff(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    end, start = (argument(context, call, args, at, DATE) for at in range(2))

    def days(array: pa.Array) -> pa.Array:
        return pc.cast(array.view(pa.int32()), BIGINT)

    return lift_arrays(BIGINT, lambda a, b: pc.subtract(days(a), days(b)), end, start)


@function(
    "date_add dateadd date_sub", 2,
    signature="$(date, days), add_months(date, months), or ts + INTERVAL '1' HOUR",
)  # fmt: skip
def _date_add(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    if args[1].type not in (BIGINT, STRING, VOID):
        raise context.error(
            call.args[1],
            f"{call.name} takes a whole number of days, not {type_name(args[1].type)}",
            "Write CAST(x AS INT).",
        )
    sign = -1 if call.name == "date_sub" else 1
    date, days = argument(context, call, args, 0, DATE), argument(context, call, args, 1, BIGINT)
    return lift_arrays(DATE, lambda x, by: add_days(x, by, sign), date, days)


@function("last_day", 1, signature="$(date)")
def _last_day(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def last(array: pa.Array) -> pa.Array:
        stamps = pc.cast(array, pa.timestamp("us"))
        following = pc.ceil_temporal(stamps, unit="month", ceil_is_strictly_greater=True)
        return from_numpy(int_values(following) // DAY_US - 1, null_mask(array), DATE)

    return lift(DATE, last, argument(context, call, args, 0, DATE))

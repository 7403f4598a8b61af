"""Calendar functions: months, dates from parts, named time zones. The session's time zone is UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_text,
    nothing,
    simple,
)
from elfmesh.ql.functions.datetime_functions import naive
from elfmesh.ql.values.civil import (
    DAY_US,
    SECOND_US,
    Ints,
    compose_us,
    days_from_civil,
    valid_date,
)
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, null_mask
from elfmesh.ql.values.patterns import writer
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
from elfmesh.ql.values.zones import UnknownZone, to_instant, to_local, zone

_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH = {DATE: pa.scalar(date(1970, 1, 1)), TIMESTAMP: pa.scalar(datetime(1970, 1, 1), pa.timestamp("us"))}
_MONTHS_MAX = 12 * 300_000


def civil(array: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Return year, month and day of dates or timestamps; those of 1970-01-01 for nulls."""
    given = array if array.type == DATE else naive(array)
    given = given.fill_null(_EPOCH[array.type])
    # Not pc.year_month_day, because its struct corrupted the heap (pyarrow 26.0.1).
    year, month, day = (
        np.asarray(part(given).to_numpy(zero_copy_only=False), np.int64)
        for part in (pc.year, pc.month, pc.day)
    )
    return year, month, day


def month_days(year: Ints, month: Ints) -> Ints:
    after = days_from_civil(year + month // 12, month % 12 + 1, np.ones_like(year))
    return np.asarray(after - days_from_civil(year, month, np.ones_like(year)))


def add_months(array: pa.Array, months: pa.Array) -> pa.Array:
    """Add months to dates or timestamps; a day that the month does not have becomes its last day."""
    by = int_values(months)
    null = null_mask(array) | null_mask(months) | (np.abs(by) > _MONTHS_MAX)
    year, month, day = civil(array)
    total = year * 12 + month - 1 + np.where(null, 0, by)
    year, month = total // 12, total % 12 + 1
    days = days_from_civil(year, month, np.minimum(day, month_days(year, month)))
    if array.type == DATE:
        return from_numpy(np.where(np.abs(days) < 2**31, days, 0), null | (np.abs(days) >= 2**31), DATE)
    inside = np.abs(days) < 2**63 // DAY_US - 1
    micros = np.where(inside, days, 0) * DAY_US + int_values(array) % DAY_US
    return from_numpy(micros, null | ~inside, TIMESTAMP)


@function("add_months", 2, signature="$(date, months)")
def _add_months(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    return lift_arrays(
        DATE, add_months, argument(context, call, args, 0, DATE), argument(context, call, args, 1, BIGINT)
    )


def _plus_months(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Time + INTERVAL n MONTH; the second argument is the number of months."""
    operand = args[0]
    if operand.type not in (DATE, TIMESTAMP, VOID):
        raise context.error(
            call,
            f"an INTERVAL of months cannot be added to {type_name(operand.type)}",
            "Convert it first: CAST(x AS TIMESTAMP).",
        )
    kind = DATE if operand.type == DATE else TIMESTAMP
    return lift_arrays(kind, add_months, convert(operand, kind), args[1])


OPERATORS["plus months"] = _plus_months


def _year_of_week(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """EXTRACT(YEAROFWEEK FROM date): the year of the ISO 8601 week."""
    return lift_arrays(BIGINT, _iso_year, argument(context, call, args, 0, DATE))


def _iso_year(days: pa.Array) -> pa.Array:
    return pc.cast(pc.iso_year(days), BIGINT)


OPERATORS["year of week"] = _year_of_week


@function("months_between", 2, 3, signature="$(end, start[, round])")
def _months_between(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    rounds = True
    if len(args) == 3:
        if args[2].type != BOOLEAN or not args[2].constant:
            raise context.error(
                call.args[2], "whether to round is TRUE or FALSE", "Write months_between(a, b, false)."
            )
        rounds = bool(args[2].value())

    def over(end: pa.Array, start: pa.Array) -> pa.Array:
        null = null_mask(end) | null_mask(start)
        (y1, m1, d1), (y2, m2, d2) = civil(end), civil(start)
        months = (y1 * 12 + m1 - y2 * 12 - m2).astype(np.float64)
        whole = (d1 == d2) | ((d1 == month_days(y1, m1)) & (d2 == month_days(y2, m2)))
        seconds = (
            (d1 - d2) * 86_400
            + int_values(end) % DAY_US // SECOND_US
            - int_values(start) % DAY_US // SECOND_US
        )
        apart = months + seconds / (31 * 86_400)
        if rounds:
            apart = np.floor(np.abs(apart) * 1e8 + 0.5) / 1e8 * np.sign(apart)
        return from_numpy(np.where(whole, months, apart), null, DOUBLE)

    return lift_arrays(DOUBLE, over, *(argument(context, call, args, at, TIMESTAMP) for at in range(2)))


@function("next_day", 2, signature="$(date, 'monday')")
def _next_day(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    name = literal_text(context, call, args, 1, "the day of the week")
    date = argument(context, call, args, 0, DATE)
    if name is None:
        return nothing(DATE)
    short = name.strip().lower()
    known = [at for at, day in enumerate(_WEEK) if short in (day, day[:3], day[:2])]
    if not known:
        raise context.error(call.args[1], f"{name!r} is not a day of the week", "Write 'monday' or 'mon'.")
    wanted = known[0]

    def over(array: pa.Array) -> pa.Array:
        days = int_values(pc.cast(array.view(pa.int32()), BIGINT))
        weekday = (days + 3) % 7  # 1970-01-01 was a Thursday
        return from_numpy(days + (wanted - weekday - 1) % 7 + 1, null_mask(array), DATE)

    return lift_arrays(DATE, over, date)


@function("make_date", 3, signature="$(year, month, day)")
def _make_date(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def over(*columns: pa.Array) -> pa.Array:
        null = np.logical_or.reduce([null_mask(column) for column in columns])
        year, month, day = (int_values(column) for column in columns)
        valid = valid_date(year, month, day)
        days = days_from_civil(
            np.where(valid, year, 1970), np.where(valid, month, 1), np.where(valid, day, 1)
        )
        return from_numpy(days, null | ~valid, DATE)

    return lift_arrays(DATE, over, *(argument(context, call, args, at, BIGINT) for at in range(3)))


@function(
    "make_timestamp try_make_timestamp make_timestamp_ltz try_make_timestamp_ltz", 6, 7,
    signature="$(year, month, day, hour, minute, second[, zone])",
)  # fmt: skip
def _make_timestamp(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    where = _zone(context, call, args, 6) if len(args) == 7 else 0
    if where is None:
        return nothing(TIMESTAMP)

    def over(*columns: pa.Array) -> pa.Array:
        null = np.logical_or.reduce([null_mask(column) for column in columns])
        year, month, day, hour, minute = (int_values(column) for column in columns[:5])
        exact = float_values(columns[5])
        sane = (exact >= 0) & (exact <= 60)
        micros = np.rint(np.where(sane, exact, 0) * SECOND_US).astype(np.int64)
        carry = micros == 60 * SECOND_US  # 60 seconds are the next minute, as in PostgreSQL and Spark
        inside = np.where(carry, 0, micros)
        clock = (hour, minute, inside // SECOND_US, inside % SECOND_US)
        stamps, valid = compose_us((year, month, day), clock)
        wall = from_numpy(stamps + carry * 60 * SECOND_US, null | ~(valid & sane), TIMESTAMP)
        return to_instant(wall, where)

    numbers = [argument(context, call, args, at, BIGINT) for at in range(5)]
    return lift_arrays(TIMESTAMP, over, *numbers, argument(context, call, args, 5, DOUBLE))


# -- zones


def _zone(context: CompileContext, call: Call, args: list[Operand], at: int) -> str | int | None:
    name = literal_text(context, call, args, at, "the time zone")
    if name is None:
        return None
    try:
        return zone(name)
    except UnknownZone:
        raise context.error(
            call.args[at], f"unknown time zone {name!r}", "Write 'Europe/Paris', '+02:00' or 'UTC'."
        ) from None


@function("from_utc_timestamp to_utc_timestamp", 2, signature="$(time, 'Europe/Paris')")
def _utc(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    where = _zone(context, call, args, 1)
    if where is None:
        return nothing(TIMESTAMP)
    step: Callable[[pa.Array, Any], pa.Array] = to_local if call.name.startswith("from") else to_instant
    return lift_arrays(TIMESTAMP, lambda x: step(x, where), argument(context, call, args, 0, TIMESTAMP))


@function("convert_timezone", 2, 3, signature="$([source, ]target, time)")
def _convert_timezone(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    source = _zone(context, call, args, 0) if len(args) == 3 else 0
    target = _zone(context, call, args, len(args) - 2)
    time = argument(context, call, args, len(args) - 1, TIMESTAMP)
    if source is None or target is None:
        return nothing(TIMESTAMP)
    return lift_arrays(TIMESTAMP, lambda x: to_local(to_instant(x, source), target), time)


# -- names and epochs of days


def _names(pattern: str) -> Callable[[pa.Array], pa.Array]:
    write = writer(pattern)
    return lambda array: write(pc.cast(array, pa.timestamp("us")))


simple("dayname", [DATE], STRING, _names("EEE"), arrays=True, signature="$(date)")
simple("monthname", [DATE], STRING, _names("MMM"), arrays=True, signature="$(date)")


def _unix_date(array: pa.Array) -> pa.Array:
    return pc.cast(array.view(pa.int32()), BIGINT)


def _date_from_days(array: pa.Array) -> pa.Array:
    days = int_values(array)
    inside = np.abs(days) < 2**31
    return from_numpy(np.where(inside, days, 0), null_mask(array) | ~inside, DATE)


simple("unix_date", [DATE], BIGINT, _unix_date, arrays=True, signature="$(date)")
simple("date_from_unix_date", [BIGINT], DATE, _date_from_days, arrays=True, signature="$(days)")

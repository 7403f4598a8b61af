"""Functions over a named unit of time: date_part, EXTRACT, steps and distances in units, bins of time."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from elfmesh.ql.expressions.nodes import Call, Literal
from elfmesh.ql.expressions.operand import Operand, constant, lift_arrays
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import (
    FUNCTIONS,
    CompileContext,
    argument,
    function,
    literal_text,
    nothing,
)
from elfmesh.ql.functions.calendar_functions import add_months, civil
from elfmesh.ql.functions.nested.lists import over_rows
from elfmesh.ql.values.civil import DAY_US, SECOND_US
from elfmesh.ql.values.columns import Bools, from_numpy, int_values, null_mask
from elfmesh.ql.values.types import BIGINT, DATE, DOUBLE, DURATION, TIMESTAMP

Ints = npt.NDArray[np.int64]

SECOND_WITH_FRACTION, YEAR_OF_WEEK, ISO_DAY = "second with fraction", "year of week", "dayofweek_iso"
"""Parts that no function of their own returns."""

_SYNONYMS = {
    "year": "year y years yr yrs", YEAR_OF_WEEK: "yearofweek", "quarter": "quarter qtr",
    "month": "month mon mons months", "weekofyear": "week w weeks", "day": "day d days",
    "dayofweek": "dayofweek dow", ISO_DAY: "dayofweek_iso dow_iso", "dayofyear": "doy",
    "hour": "hour h hours hr hrs", "minute": "minute m min mins minutes",
    SECOND_WITH_FRACTION: "second s sec seconds secs",
}  # fmt: skip
PARTS = {name: part for part, names in _SYNONYMS.items() for name in names.split()}
"""By the name of a part of a time, in small letters, the function or operator that returns it."""

PART_NAMES = ", ".join(names.split()[0] for names in _SYNONYMS.values())
"""List of the parts for messages."""

_MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": SECOND_US, "MINUTE": 60 * SECOND_US,
    "HOUR": 3_600 * SECOND_US, "DAY": DAY_US, "DAYOFYEAR": DAY_US, "WEEK": 7 * DAY_US,
}  # fmt: skip
_SIZES_US = (DAY_US, 3_600 * SECOND_US, 60 * SECOND_US, SECOND_US)
_SECONDS = pa.decimal128(8, 6)
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
UNITS = (*_MICROSECONDS, *_MONTHS)
"""Units of timestampadd and timestampdiff."""

_LIMIT_US = 2**63 - 1


@function("date_part datepart", 2, signature="$('year', time)")
def _date_part(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    name = literal_text(context, call, args, 0, "the part")
    if name is None:
        return nothing(pa.float64())
    part = PARTS.get(name.lower())
    if part is None:
        raise context.error(call.args[0], f"{name!r} is not a part of a time", f"There are {PART_NAMES}.")
    inner = Call(part, call.args[1:], at=call.at)
    operator = OPERATORS.get(part)
    if args[1].type == DURATION:
        if part not in INTERVAL_PARTS:
            hint = "There are day, hour, minute and second."
            raise context.error(call.args[0], f"{name!r} is not a part of an INTERVAL", hint)
        operator = interval_part
    return (FUNCTIONS[part].build if operator is None else operator)(context, inner, args[1:])


INTERVAL_PARTS: dict[str, tuple[int, int | None]] = {
    "day": (DAY_US, None), "hour": (3_600 * SECOND_US, 24), "minute": (60 * SECOND_US, 60),
    SECOND_WITH_FRACTION: (1, 60 * SECOND_US),
}  # fmt: skip
"""Parts of an INTERVAL: microseconds of one, and how many make one of the next part."""


def interval_part(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return days, hours, minutes or seconds of an INTERVAL, with its sign: EXTRACT(HOUR FROM x)."""
    size, most = INTERVAL_PARTS[call.name]

    def over(array: pa.Array) -> pa.Array:
        whole = _towards_zero(int_values(array), size)
        part = whole if most is None else np.asarray(np.fmod(whole, most))
        null = null_mask(array)
        return (
            _fractional(part, null) if call.name == SECOND_WITH_FRACTION else from_numpy(part, null, BIGINT)
        )

    return lift_arrays(_SECONDS if call.name == SECOND_WITH_FRACTION else BIGINT, over, *args)


@function("make_dt_interval", 0, 4, signature="$([days[, hours[, minutes[, seconds]]]])")
def _make_dt_interval(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the sum of the parts; null if it leaves 64 bits."""
    parts = [argument(context, call, args, at, DOUBLE if at == 3 else BIGINT) for at in range(len(args))]
    if not parts:
        return constant(timedelta(), DURATION)

    def one(*row: float) -> int | None:
        total = sum(int(part) * size for part, size in zip(row[:3], _SIZES_US[:3], strict=False))
        if len(row) == 4:
            if not math.isfinite(row[3]):
                return None
            total += round(row[3] * SECOND_US)
        return total if abs(total) <= _LIMIT_US else None

    return over_rows(DURATION, one, *parts)


def _second(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """EXTRACT(SECOND FROM time): seconds and microseconds, DECIMAL(8, 6)."""
    time = argument(context, call, args, 0, TIMESTAMP)
    return lift_arrays(_SECONDS, lambda x: _fractional(int_values(x) % (60 * SECOND_US), null_mask(x)), time)


def _fractional(micros: Ints, null: Bools) -> pa.Array:
    """Return microseconds as a DECIMAL(8, 6) of seconds."""
    pairs = np.zeros((len(micros), 2), np.int64)  # both halves of a 128-bit number
    pairs[:, 0] = np.where(null, 0, micros)
    pairs[:, 1] = -(pairs[:, 0] < 0).astype(np.int64)
    valid = np.packbits(~null, bitorder="little").tobytes()
    buffers = [pa.py_buffer(valid), pa.py_buffer(pairs.tobytes())]
    return pa.Array.from_buffers(_SECONDS, len(micros), buffers)


def _iso_day(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """EXTRACT(DAYOFWEEK_ISO FROM time): Monday is 1."""
    weekday = FUNCTIONS["weekday"].build(context, call, args)
    plus = Call("+", (call.args[0], Literal("bigint", 1)), at=call.at)
    return OPERATORS["+"](context, plus, [weekday, constant(1, BIGINT)])


OPERATORS[SECOND_WITH_FRACTION], OPERATORS[ISO_DAY] = _second, _iso_day


def _unit(context: CompileContext, call: Call, args: list[Operand]) -> str:
    name = literal_text(context, call, args, 0, "the unit") or ""
    if name.upper() not in UNITS:
        hint = f"There are {', '.join(UNITS)}."
        raise context.error(call.args[0], f"{name!r} is not a unit of {call.name}", hint)
    return name.upper()


@function("timestampadd", 3, signature="$(DAY, n, time)")
def _timestamp_add(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    unit = _unit(context, call, args)
    number, time = argument(context, call, args, 1, BIGINT), argument(context, call, args, 2, TIMESTAMP)

    def in_months(by: pa.Array, array: pa.Array) -> pa.Array:
        count = int_values(by)
        inside = np.abs(count) < 2**40
        months = from_numpy(np.where(inside, count, 0) * _MONTHS[unit], null_mask(by) | ~inside, BIGINT)
        return add_months(array, months)

    def in_micros(by: pa.Array, array: pa.Array) -> pa.Array:
        size, count, at = _MICROSECONDS[unit], int_values(by), int_values(array)
        inside = np.abs(count) <= _LIMIT_US // size
        step = np.where(inside, count, 0) * size
        moved = at + step  # wraps around beyond 64 bits, and then the sign tells
        inside &= (step >= 0) == (moved >= at)
        return from_numpy(np.where(inside, moved, 0), null_mask(by) | null_mask(array) | ~inside, TIMESTAMP)

    return lift_arrays(TIMESTAMP, in_months if unit in _MONTHS else in_micros, number, time)


@function("timestampdiff", 3, signature="$(DAY, start, end)")
def _timestamp_diff(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    unit = _unit(context, call, args)
    times = [argument(context, call, args, at, TIMESTAMP) for at in (1, 2)]

    def over(start: pa.Array, end: pa.Array) -> pa.Array:
        null = null_mask(start) | null_mask(end)
        if unit in _MONTHS:
            return from_numpy(_towards_zero(_months_between(start, end), _MONTHS[unit]), null, BIGINT)
        between = np.where(null, 0, int_values(end) - int_values(start))
        return from_numpy(_towards_zero(between, _MICROSECONDS[unit]), null, BIGINT)

    return lift_arrays(BIGINT, over, *times)


def _towards_zero(number: Ints, by: int) -> Ints:
    return np.asarray(np.abs(number) // by * np.sign(number))


def _months_between(start: pa.Array, end: pa.Array) -> Ints:
    """Return whole months, as java.time: an end whose time of day is short of the start's is a day closer."""
    null = null_mask(start) | null_mask(end)
    first, last = (np.where(null, 0, int_values(each)) for each in (start, end))
    days, clock = last // DAY_US - first // DAY_US, last % DAY_US - first % DAY_US
    nearer = np.where((days > 0) & (clock < 0), -1, np.where((days < 0) & (clock > 0), 1, 0))
    dates = (from_numpy(each, null, DATE) for each in (first // DAY_US, last // DAY_US + nearer))
    (y1, m1, d1), (y2, m2, d2) = map(civil, dates)
    return _towards_zero(((y2 - y1) * 12 + m2 - m1) * 32 + d2 - d1, 32)


# -- bins


@function("date_bin", 2, 3, signature="$(INTERVAL '10' SECOND, time[, origin])")
def _date_bin(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    """Return the start of the bin that contains a time. Bins are aligned to the origin, 1970 without one."""
    if args[0].type != DURATION or not args[0].constant or args[0].value() <= timedelta():
        hint = "Write date_bin(INTERVAL '10' SECOND, ts)."
        raise context.error(call.args[0], "the size of a bin is a constant INTERVAL above 0", hint)
    size_us = args[0].value() // timedelta(microseconds=1)
    times = [argument(context, call, args, at, TIMESTAMP) for at in range(1, len(args))]

    def over(array: pa.Array, *origin: pa.Array) -> pa.Array:
        at, null = int_values(array), null_mask(array)
        since = int_values(origin[0]) if origin else np.zeros(len(array), np.int64)
        null = null | null_mask(origin[0]) if origin else null
        return from_numpy(np.where(null, 0, at - (at - since) % size_us), null, TIMESTAMP)

    return lift_arrays(TIMESTAMP, over, *times)


OPERATORS["date_bin"] = _date_bin  # functions take no INTERVAL

"""Event time: conversion of the time formats of logs to a timestamp column.

Queries (window column) and parsers of log formats share the function `to_timestamp_us`. It reads ISO-8601
(with Z, offset, space or T), the Common Log Format, RFC 2822 and ctime-like dates, and epoch numbers in
seconds, milli-, micro- or nanoseconds. A value that it cannot read is null, never an error; the record is
then counted as a parse error (D-1).

Deviation from Spark: only the event time accepts all these formats. CAST('17/May/2015:10:05:03 +0000' AS
TIMESTAMP) is null, as in Spark (see `cast`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.values.civil import MONTHS, SECOND_US, Bools, Ints, compose_us, month_number
from elfmesh.ql.values.columns import bool_values, float_values, from_numpy, int_values, null_mask
from elfmesh.ql.values.types import STRING, TIMESTAMP

MILLIS_FROM, MICROS_FROM, NANOS_FROM = 1e11, 1e14, 1e17
"""Epoch numbers above these are milli-, micro- and nanoseconds. Each limit is a day in 1973 in its own unit,
and after the year 5000 in the next larger unit."""

_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?"
_MONTH = r"(?P<mon>" + "|".join(MONTHS) + r")[a-z]*"
_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9})\d*)?)?"
_ZONE = r"(?P<z>z|utc|gmt|ut|[+-]\d{2}(?::?\d{2})?)?"
_ISO = r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?:[ t]+" + _CLOCK + r"\s*" + _ZONE + r")?"
_CLF = r"\[?(?P<d>\d{1,2})/" + _MONTH + r"/(?P<y>\d{4}):" + _CLOCK + r"\s*" + _ZONE + r"\]?"
_RFC = (
    _WEEKDAY
    + r"(?P<d>\d{1,2})[ -]"
    + _MONTH
    + r"[ -](?P<y>\d{4})\s+"
    + _CLOCK
    + r"\s*"
    + _ZONE
    + r"(?:\s*\(\w+\))?"
)
_CTIME = _WEEKDAY + _MONTH + r"\s+(?P<d>\d{1,2})\s+" + _CLOCK + r"\s*" + _ZONE + r"\s+(?P<y>\d{4})"
_ISO_HOUR = r"(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})[ t](?P<h>\d{2})" + _ZONE
_SHAPES = tuple(r"(?i)^\s*" + shape + r"\s*$" for shape in (_ISO, _CLF, _RFC, _CTIME, _ISO_HOUR))
_NUMBER = r"^\s*[+-]?\d+(?:\.\d+)?\s*$"
_CLF_WIDTH = 26
_ZONE_HOURS_MAX = 23
"""Arrow's limit, so that the result does not depend on the other rows; Spark's casts stop at 18."""


def to_timestamp_us(array: pa.Array | pa.ChunkedArray) -> pa.TimestampArray:
    """Convert timestamps, dates, epoch numbers or strings to timestamp[us, UTC]; null if unreadable.

    Cost: one pass for pure ISO or CLF columns; one regular expression per shape for the others.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if pa.types.is_dictionary(array.type):
        return to_timestamp_us(array.dictionary).take(array.indices)
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _timestamps(array)
    if pa.types.is_date(kind):
        return pc.cast(pc.cast(array, pa.timestamp("us")), TIMESTAMP)
    if pa.types.is_integer(kind):
        return _epoch_ints(array)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _epoch_floats(pc.cast(array, pa.float64(), safe=False))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _texts(pc.cast(array, STRING))
    return pa.nulls(len(array), TIMESTAMP)


def _timestamps(array: pa.Array) -> pa.Array:
    if array.type == TIMESTAMP:
        return array
    if array.type.tz is not None:
        return pc.cast(array, TIMESTAMP, safe=False)
    return pc.cast(array, pa.timestamp("us"), safe=False).view(pa.int64()).view(TIMESTAMP)


def _epoch_ints(array: pa.Array) -> pa.Array:
    if pa.types.is_uint64(array.type):
        return _epoch_floats(pc.cast(array, pa.float64(), safe=False))
    null = null_mask(array)
    values = int_values(pc.cast(array, pa.int64()))
    size = np.abs(values.astype(np.float64))
    micros = np.where(
        size > NANOS_FROM,
        values // 1000,
        values * np.where(size > MICROS_FROM, 1, np.where(size > MILLIS_FROM, 1000, SECOND_US)),
    )
    return from_numpy(micros, null, TIMESTAMP)


def _epoch_floats(array: pa.Array) -> pa.Array:
    null = null_mask(array)
    values = float_values(array)
    usable = np.isfinite(values) & (np.abs(values) < 9.2e18)
    values = np.where(usable, values, 0.0)
    size = np.abs(values)
    scale = np.where(
        size > NANOS_FROM, 1e-3, np.where(size > MICROS_FROM, 1.0, np.where(size > MILLIS_FROM, 1e3, 1e6))
    )
    return from_numpy(np.rint(values * scale).astype(np.int64), null | ~usable, TIMESTAMP)


def _texts(array: pa.Array) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), TIMESTAMP)
    for fast in (_fixed_width_clf, _arrow_iso):
        read = fast(array)
        if read is not None:
            return read
    result = pa.nulls(len(array), TIMESTAMP)
    numbers = pc.match_substring_regex(array, _NUMBER)
    if pc.any(numbers).as_py():
        result = _read_numbers(pc.if_else(numbers, array, None))
    for shape in _SHAPES:
        open_rows = pc.and_(result.is_null(), array.is_valid())
        if not pc.any(open_rows).as_py():
            break
        read = parse_shape(pc.if_else(open_rows, array, None), shape, zone_hours_max=_ZONE_HOURS_MAX)
        result = pc.coalesce(result, read)
    return result


def _read_numbers(array: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(array)
    whole = pc.match_substring_regex(trimmed, r"^-?\d{1,18}$")
    ints = _epoch_ints(pc.cast(pc.if_else(whole, trimmed, None), pa.int64()))
    unsigned = pc.replace_substring_regex(pc.if_else(whole, None, trimmed), r"^\+", "")
    return pc.coalesce(ints, _epoch_floats(pc.cast(unsigned, pa.float64())))


def _arrow_iso(array: pa.Array) -> pa.Array | None:
    """Arrow's own ISO-8601 reader: fast, but it fails for the whole column if one value has another shape."""
    for target in (TIMESTAMP, pa.timestamp("us")):
        try:
            return _timestamps(pc.cast(array, target))
        except pa.ArrowInvalid:
            continue
    return None


def _fixed_width_clf(array: pa.Array) -> pa.Array | None:
    """Read `17/May/2015:10:05:03 +0000` in every row from the bytes; None if any row differs."""
    rows = len(array)
    buffers = array.buffers()
    if array.null_count or buffers[2] is None:
        return None
    ends = np.frombuffer(buffers[1], dtype=np.int32)[array.offset : array.offset + rows + 1]
    if not (np.diff(ends) == _CLF_WIDTH).all():
        return None
    raw = np.frombuffer(buffers[2], dtype=np.uint8)[ends[0] : ends[-1]].reshape(rows, _CLF_WIDTH)
    columns = np.ascontiguousarray(raw.T)
    marks = {2: "/", 6: "/", 11: ":", 14: ":", 17: ":", 20: " "}
    digits = columns[[0, 1, 7, 8, 9, 10, 12, 13, 15, 16, 18, 19, 22, 23, 24, 25]] - ord("0")
    east, west = columns[21] == ord("+"), columns[21] == ord("-")
    marked = all((columns[at] == ord(mark)).all() for at, mark in marks.items())
    if not marked or (digits > 9).any() or not (east | west).all():  # characters below "0" wrapped to above 9
        return None

    def two(at: int) -> Ints:
        return np.asarray(digits[at].astype(np.int64) * 10 + digits[at + 1])

    sign = np.where(west, -1, 1)
    month = month_number(raw[:, 3:6])
    offset = sign * (two(12) * 3600 + two(14) * 60)
    sane_zone = (two(12) <= _ZONE_HOURS_MAX) & (two(14) < 60)
    zero = np.zeros(rows, dtype=np.int64)
    micros, valid = compose_us(
        (two(2) * 100 + two(4), month, two(0)), (two(6), two(8), two(10), zero), offset
    )
    return from_numpy(micros, ~(valid & sane_zone), TIMESTAMP)


def number_field(parts: pa.StructArray, name: str, default: int) -> Ints:
    """Return the digits of a named group as integers; `default` if the group is absent or empty."""
    rows = len(parts)
    if not _has(parts, name):
        return np.full(rows, default, dtype=np.int64)
    text = parts.field(name)
    empty = pc.or_kleene(pc.equal(text, ""), text.is_null())
    return int_values(pc.cast(pc.if_else(empty, str(default), text), pa.int64()))


def fraction_us(parts: pa.StructArray, name: str = "f") -> Ints:
    """Return the microseconds of a group of fraction digits, truncated."""
    if not _has(parts, name):
        return np.zeros(len(parts), dtype=np.int64)
    text = pc.utf8_slice_codeunits(pc.utf8_rpad(parts.field(name).fill_null(""), 6, "0"), 0, 6)
    return int_values(pc.cast(text, pa.int64()))


def offset_s(parts: pa.StructArray, hours_max: int, name: str = "z") -> tuple[Ints, Bools]:
    """Return the seconds east of UTC of a group (`+0200`, `-05:30`, `+2`, `Z`), and where it is valid."""
    rows = len(parts)
    if not _has(parts, name):
        return np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)
    text = parts.field(name).fill_null("")
    zone = pc.extract_regex(text, r"(?P<sign>[+-])(?P<hh>\d{1,2}):?(?P<mm>\d{2})?$")
    zone = pc.if_else(zone.is_null(), pa.scalar({"sign": "+", "hh": "0", "mm": "0"}, type=zone.type), zone)
    hours, minutes = number_field(zone, "hh", 0), number_field(zone, "mm", 0)
    sign = np.where(np.asarray(pc.equal(zone.field("sign"), "-").to_numpy(zero_copy_only=False)), -1, 1)
    return np.asarray(sign * (hours * 3600 + minutes * 60)), np.asarray((hours <= hours_max) & (minutes < 60))


def parse_shape(array: pa.Array, shape: str, *, zone_hours_max: int = 18) -> pa.Array:
    """Return timestamps of the strings that match a regular expression.

    The shape's named groups are y or yy (2000 to 2099), m or mon, d, h or h12 with ap (am/pm), mi, s, f
    (fraction), z (offset). Absent groups default to the epoch. An offset above `zone_hours_max` gives null.
    """
    parts = pc.extract_regex(array, shape)
    null = null_mask(parts)
    if null.all():
        return pa.nulls(len(array), TIMESTAMP)
    year = number_field(parts, "yy", 0) + 2000 if _has(parts, "yy") else number_field(parts, "y", 1970)
    hour, sane_hour = _hour(parts)
    zone, sane_zone = offset_s(parts, zone_hours_max)
    clock = (hour, number_field(parts, "mi", 0), number_field(parts, "s", 0), fraction_us(parts))
    micros, valid = compose_us((year, _month(parts), number_field(parts, "d", 1)), clock, zone)
    return from_numpy(micros, null | ~(valid & sane_hour & sane_zone), TIMESTAMP)


def _has(parts: pa.StructArray, name: str) -> bool:
    return bool(parts.type.get_field_index(name) >= 0)


def _hour(parts: pa.StructArray) -> tuple[Ints, Bools]:
    """Return the hour of the day (0 to 23) from h, or from h12 and ap, and where it is valid."""
    if not _has(parts, "h12"):
        return number_field(parts, "h", 0), np.ones(len(parts), dtype=np.bool_)
    twelve = number_field(parts, "h12", 12)
    afternoon = np.zeros(len(parts), dtype=np.bool_)
    if _has(parts, "ap"):
        afternoon = bool_values(pc.equal(pc.utf8_lower(parts.field("ap")), "pm"))
    return np.asarray(twelve % 12 + 12 * afternoon), np.asarray((twelve >= 1) & (twelve <= 12))


def _month(parts: pa.StructArray) -> Ints:
    if not _has(parts, "mon"):
        return number_field(parts, "m", 1)
    names = pc.utf8_slice_codeunits(pc.utf8_lower(parts.field("mon")), 0, 3)
    found = pc.index_in(names, value_set=pa.array(MONTHS))
    return int_values(pc.cast(found, pa.int64()).fill_null(-1)) + 1

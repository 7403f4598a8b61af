"""Intervals of days to microseconds: text in Spark's form, literals with two units, rounded products.

An INTERVAL is a number of microseconds. Each is a DAY TO SECOND: `INTERVAL '1 02:03:04.5' DAY TO SECOND`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from elfmesh.ql.values.arithmetic import multiply
from elfmesh.ql.values.civil import DAY_US, SECOND_US
from elfmesh.ql.values.columns import (
    as_array,
    float_values,
    from_numpy,
    int_values,
    list_cuts,
    map_distinct,
    null_mask,
)
from elfmesh.ql.values.types import BIGINT, DURATION, STRING, is_decimal, is_list

_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
_SIZES_US = (DAY_US, 3_600 * SECOND_US, 60 * SECOND_US, SECOND_US)
_DIGITS = ("", r"(\d{1,2})", r"(\d{1,2})", r"(\d{1,2}(?:\.\d{1,9})?)")
_BETWEEN = (" ", ":", ":")
_MOST = (0, 23, 59, 59)


def span_us(text: str, first: str, last: str) -> int | None:
    """Return the microseconds of a literal from one unit to another: '1 02:03' DAY TO MINUTE; None if wrong.

    Digits beyond the sixth of a fraction are cut off, as in Spark.
    """
    if (
        first not in _UNITS
        or last not in _UNITS
        or (begin := _UNITS.index(first)) >= (end := _UNITS.index(last))
    ):
        return None
    rest = "".join(_BETWEEN[at - 1] + _DIGITS[at] for at in range(begin + 1, end + 1))
    match = re.fullmatch(r"\s*([+-])?(\d{1,9})" + rest + r"\s*", text)
    if match is None:
        return None
    sign, *parts = match.groups()
    if any(int(Decimal(part)) > _MOST[at] for at, part in enumerate(parts[1:], begin + 1)):
        return None
    total = sum(int(Decimal(part) * _SIZES_US[at]) for at, part in enumerate(parts, begin))
    return -total if sign == "-" else total


def to_text(array: pa.Array) -> pa.Array:
    """Return intervals in the form of Spark's CAST(x AS STRING)."""
    return map_distinct(interval_text, array.view(pa.int64()), STRING)


def interval_text(us: int) -> str:
    days, rest = divmod(abs(us), DAY_US)
    seconds, fraction = divmod(rest, SECOND_US)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' * (us < 0)}{days} {clock}{decimals}' DAY TO SECOND"


def intervals_as_text(table: pa.Table) -> pa.Table:
    """Return a table of results with its intervals as text, because no column of results has the type."""
    for at, field in enumerate(table.schema):
        if _holds_interval(field.type):
            column = _texts(as_array(table.column(at), table.num_rows))
            table = table.set_column(at, field.name, column)
    return table


def _holds_interval(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return bool(pa.types.is_duration(kind)) or any(map(_holds_interval, inner))


def _texts(array: pa.Array) -> pa.Array:
    if not _holds_interval(array.type):
        return array
    mask = array.is_null() if array.null_count else None
    if is_list(array.type):
        return pa.ListArray.from_arrays(list_cuts(array), _texts(array.flatten()), mask=mask)
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays([_texts(part) for part in array.flatten()], names, mask=mask)
    return to_text(array)


def multiplied(intervals: pa.Array, numbers: pa.Array) -> pa.Array:
    """Return intervals times numbers, rounded half up; null beyond 64 bits."""
    if numbers.type == BIGINT:
        return multiply(intervals.view(pa.int64()), numbers).view(DURATION)
    return _rounded(intervals, numbers, divides=False)


def divided(intervals: pa.Array, numbers: pa.Array) -> pa.Array:
    """Return intervals by numbers, rounded half up; null by 0 and beyond 64 bits."""
    if numbers.type != BIGINT:
        return _rounded(intervals, numbers, divides=True)
    whole, by = int_values(intervals), int_values(numbers)
    null = null_mask(intervals) | null_mask(numbers) | (by == 0)
    number, size = (np.abs(each).astype(np.uint64) for each in (whole, np.where(null, 1, by)))
    found, rest = number // size, number % size
    found += rest >= size - rest
    negative = (whole < 0) != (by < 0)
    null |= found > np.uint64(2**63 - 1) + negative.astype(np.uint64)
    values = found.astype(np.int64)
    return from_numpy(np.where(negative, -values, values), null, DURATION)


def _rounded(intervals: pa.Array, numbers: pa.Array, *, divides: bool) -> pa.Array:
    null = null_mask(intervals) | null_mask(numbers)
    if is_decimal(numbers.type):
        pairs = zip(int_values(intervals).tolist(), numbers.to_pylist(), strict=True)
        made = [_exact(us, by, divides) for us, by in pairs]
        values = np.asarray([0 if each is None else each for each in made], np.int64)
        return from_numpy(values, null | np.asarray([each is None for each in made], np.bool_), DURATION)
    with np.errstate(all="ignore"):
        by = float_values(numbers)
        product = int_values(intervals) / by if divides else int_values(intervals) * by
        rounded = np.copysign(np.floor(np.abs(product) + 0.5), product)
        inside = np.abs(rounded) < 2.0**63  # false for NaN
    return from_numpy(np.where(inside, rounded, 0).astype(np.int64), null | ~inside, DURATION)


def _exact(us: int, by: Decimal | None, divides: bool) -> int | None:
    if by is None or (divides and not by):
        return None
    exact = Fraction(us) / Fraction(by) if divides else Fraction(us) * Fraction(by)
    found = math.floor(abs(exact) + Fraction(1, 2)) * (-1 if exact < 0 else 1)
    return found if abs(found) < 2**63 else None

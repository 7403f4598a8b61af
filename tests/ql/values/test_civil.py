"""Civil dates to microseconds and back by the calendar of Python, and dates that are none."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ql.values.civil import (
    MONTHS,
    YEAR_MAX,
    Ints,
    compose_us,
    days_from_civil,
    month_number,
    valid_date,
)


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


@given(st.dates())
def test_days_are_those_of_python(day: dt.date) -> None:
    (days,) = days_from_civil(ints(day.year), ints(day.month), ints(day.day))
    assert days == (day - dt.date(1970, 1, 1)).days
    assert valid_date(ints(day.year), ints(day.month), ints(day.day)).all()


@given(st.datetimes())
def test_microseconds_are_those_of_python(at: dt.datetime) -> None:
    time = (ints(at.hour), ints(at.minute), ints(at.second), ints(at.microsecond))
    values, valid = compose_us((ints(at.year), ints(at.month), ints(at.day)), time)
    assert valid.all()
    assert values[0] == (at - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("year", "month", "day", "valid"),
    [
        (2024, 2, 29, True),
        (2023, 2, 29, False),
        (1900, 2, 29, False),
        (2000, 2, 29, True),
        (2024, 4, 31, False),
        (2024, 0, 1, False),
        (2024, 13, 1, False),
        (2024, 1, 0, False),
        (0, 2, 29, True),
        (-4, 2, 29, True),
        (YEAR_MAX, 12, 31, True),
        (YEAR_MAX + 1, 1, 1, False),
        (2024, 99, 99, False),
    ],
)
def test_a_date_that_is_none_is_not_valid(year: int, month: int, day: int, valid: bool) -> None:
    assert bool(valid_date(ints(year), ints(month), ints(day))[0]) is valid


@pytest.mark.parametrize("time", [(24, 0, 0), (0, 60, 0), (0, 0, 60), (-1, 0, 0), (0, -1, 0)])
def test_a_time_that_is_none_is_not_valid(time: tuple[int, int, int]) -> None:
    _, valid = compose_us((ints(2024), ints(1), ints(1)), (*map(ints, time), ints(0)))  # type: ignore[arg-type]  # three and one
    assert not valid.any()


def test_an_offset_to_the_east_is_subtracted() -> None:
    values, _ = compose_us((ints(1970), ints(1), ints(1)), (ints(2), ints(0), ints(0), ints(0)), 7200)
    assert values.tolist() == [0]


@pytest.mark.parametrize("text", ["Jan", "JAN", "dec", "xyz", "ma ", "jax"])
def test_months_are_known_by_three_letters(text: str) -> None:
    letters = np.frombuffer(text.encode(), np.uint8).reshape(1, 3)
    expected = MONTHS.index(text.lower()) + 1 if text.lower() in MONTHS else 0
    assert month_number(letters).tolist() == [expected]

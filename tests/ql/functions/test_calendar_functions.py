"""Months and zones: ends of months, leap years, offsets."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from elfmesh.errors import QueryError
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("add_months(DATE '2024-01-31', 1)", datetime.date(2024, 2, 29)),
        ("add_months(DATE '2024-02-29', 12)", datetime.date(2025, 2, 28)),
        ("add_months(DATE '2024-03-31', -1)", datetime.date(2024, 2, 29)),
        ("months_between(DATE '2024-03-31', DATE '2024-02-29')", 1.0),
        ("months_between(DATE '2024-03-15', DATE '2024-02-15')", 1.0),
        ("next_day(DATE '2024-02-29', 'MON')", datetime.date(2024, 3, 4)),
        ('make_date(2024, 2, 29)', datetime.date(2024, 2, 29)),
        ('make_date(2023, 2, 29)', None),
        ('make_date(cast(null AS bigint), 1, 1)', None),
        ("dayname(DATE '2024-02-29')", 'Thu'),
        ("monthname(DATE '2024-02-29')", 'Feb'),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_a_day_of_the_week_that_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="never"):
        values("next_day(DATE '2024-02-29', 'never')")


def test_a_zone_that_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="Middle/Earth"):
        values("convert_timezone('UTC', 'Middle/Earth', '2024-07-01 12:00:00')")


def test_the_clock_of_a_zone_goes_forward_and_back() -> None:
    at = [datetime.datetime(2026, 3, 29, hour, tzinfo=datetime.UTC) for hour in (0, 1)]
    found = values("from_utc_timestamp(t, 'Europe/Berlin')", t=at)
    assert [each.hour for each in found] == [1, 3]

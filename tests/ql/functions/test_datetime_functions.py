"""Parts of times, and times from texts and back."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from elfmesh.errors import QueryError
from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("year(DATE '2024-02-29')", 2024),
        ("month(DATE '2024-02-29')", 2),
        ("day(DATE '2024-02-29')", 29),
        ("dayofweek(DATE '2024-02-25')", 1),
        ("weekday(DATE '2024-02-25')", 6),
        ("dayofyear(DATE '2024-12-31')", 366),
        ("weekofyear(DATE '2021-01-03')", 53),
        ("quarter(DATE '2024-05-01')", 2),
        ("hour(TIMESTAMP '2024-02-29 13:14:15')", 13),
        ("minute(TIMESTAMP '2024-02-29 13:14:15')", 14),
        ("second(TIMESTAMP '2024-02-29 13:14:15.9')", 15),
        ("to_date('2024-02-30')", None),
        ("to_date('2024-02-29')", datetime.date(2024, 2, 29)),
        ("to_date('29/02/2024', 'dd/MM/yyyy')", datetime.date(2024, 2, 29)),
        ("date_format(TIMESTAMP '2024-02-29 13:14:15', 'yyyy/MM/dd HH:mm')", '2024/02/29 13:14'),
        ("trunc(DATE '2024-12-31', 'year')", datetime.date(2024, 1, 1)),
        ("trunc(DATE '2024-05-17', 'month')", datetime.date(2024, 5, 1)),
        ("last_day(DATE '2023-02-01')", datetime.date(2023, 2, 28)),
        ("unix_timestamp(TIMESTAMP '1970-01-01 00:01:00')", 60),
        ('from_unixtime(60)', '1970-01-01 00:01:00'),
        ("date_add(DATE '2024-02-28', 2)", datetime.date(2024, 3, 1)),
        ("datediff(DATE '2024-03-01', DATE '2024-02-28')", 2),
    ],
)  # fmt: skip
def test_a_value_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_before_the_epoch_parts_are_cut_downwards_and_seconds_towards_zero() -> None:
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000, datetime.UTC)
    assert values("second(t)", t=[before, None]) == [59, None]
    assert values("unix_timestamp(t)", t=[before]) == [0], "as Spark divides"


def test_a_time_is_cut_to_a_unit() -> None:
    at = datetime.datetime(2024, 2, 29, 13, 14, 15, tzinfo=datetime.UTC)
    assert values("date_trunc('hour', t)", t=[at, None]) == [at.replace(minute=0, second=0), None]
    with pytest.raises(QueryError, match="nothing"):
        values("date_trunc('nothing', t)", t=[at])


def test_a_pattern_that_is_not_supported_is_refused() -> None:
    with pytest.raises(QueryError, match="QQQQQQ"):
        values("date_format(TIMESTAMP '2024-02-29 13:14:15', 'QQQQQQ')")

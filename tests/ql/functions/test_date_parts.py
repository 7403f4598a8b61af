"""Parts, steps, distances and bins of time, by the name of a unit."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from elfmesh.errors import QueryError
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusing


def at(year: int, month: int, day: int, *clock: int) -> datetime:
    hour, minute, second, micros = (*clock, 0, 0, 0, 0)[:4]
    return datetime(year, month, day, hour, minute, second, micros, UTC)


T = "TIMESTAMP '2024-01-31 23:59:59.000001'"

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT extract(century FROM ts) FROM s", 1, 0, "EXTRACT does not know century", "There are year, "),
)  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"extract(SECOND FROM {T})", Decimal("59.000001")),
        ("extract(SECOND FROM TIMESTAMP '1969-12-31 23:59:58.5')", Decimal("58.500000")),
        (f"extract(DOW FROM {T})", 4),
        (f"extract(DOW_ISO FROM {T})", 3),
        (f"date_part('yrs', {T})", 2024),
        (f"date_part('MINS', {T})", 59),
        (f"date_part(NULL, {T})", None),
        (f"extract(DAY FROM {T} - DATE '2024-01-01')", 30),
        (f"extract(HOUR FROM DATE '2024-01-01' - {T})", -23),
        (f"date_part('mins', {T} - DATE '2024-01-01')", 59),
        (f"extract(SECOND FROM DATE '2024-01-01' - {T})", Decimal("-59.000001")),
        ("make_dt_interval(1, -2, 3, 4.5) = INTERVAL '22:03:04.5' HOUR TO SECOND", True),
        ("make_dt_interval(1, NULL) IS NULL", True),
        ("make_dt_interval(106751991, 5) IS NULL", True),
        ("make_dt_interval(0, 0, 0, double('nan')) IS NULL", True),
        ("make_dt_interval() = INTERVAL '0' SECOND", True),
        (f"dateadd(MONTH, 1, {T})", at(2024, 2, 29, 23, 59, 59, 1)),
        (f"date_add(DAY, -31, {T})", at(2023, 12, 31, 23, 59, 59, 1)),
        (f"timestampadd(QUARTER, 1, {T})", at(2024, 4, 30, 23, 59, 59, 1)),
        (f"dateadd(HOUR, 9223372036854775807, {T})", None),
        ("dateadd(MICROSECOND, 1, DATE '2024-01-01')", at(2024, 1, 1, 0, 0, 0, 1)),
        (f"datediff(MONTH, {T}, TIMESTAMP '2024-02-29 23:59:59')", 0),
        ("datediff(MONTH, DATE '2024-01-15', DATE '2024-02-15')", 1),
        ("datediff(MONTH, DATE '2024-02-15', DATE '2024-01-16')", 0),
        ("timestampdiff(YEAR, DATE '2024-02-29', DATE '2025-02-28')", 0),
        ("timestampdiff(HOUR, TIMESTAMP '2024-01-01 01:00:00', TIMESTAMP '2024-01-01 00:00:01')", 0),
        ("datediff(MONTH, DATE '2024-01-31', TIMESTAMP '2020-02-29 12:00:00')", -46),
        ("datediff(MONTH, TIMESTAMP '2020-02-29 12:00:00', DATE '2024-01-31')", 47),
        ("date_diff(WEEK, DATE '2024-01-29', DATE '2024-01-01')", -4),
        ("date_add(DATE '2024-01-31', 1)", at(2024, 2, 1).date()),
        (f"date_bin(INTERVAL '10' MINUTE, {T})", at(2024, 1, 31, 23, 50)),
        (f"date_bin(INTERVAL '7' HOUR, {T}, TIMESTAMP '2024-01-01 01:00:00')", at(2024, 1, 31, 23)),
        (f"date_bin(INTERVAL '1' DAY, {T}, TIMESTAMP '2030-01-01 06:00:00')", at(2024, 1, 31, 6)),
        ("date_bin(INTERVAL '1' HOUR, TIMESTAMP '1969-12-31 23:30:00')", at(1969, 12, 31, 23)),
        ("date_bin(INTERVAL '1' HOUR, NULL)", None),
    ],
)
def test_a_value_is_right(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        (f"dateadd(FORTNIGHT, 1, {T})", "'FORTNIGHT' is not a unit", "There are MICROSECOND"),
        (f"date_part('century', {T})", "'century' is not a part", "There are year"),
        (f"date_bin(5, {T})", "the size of a bin is a constant INTERVAL", "date_bin"),
        (f"date_bin(INTERVAL '0' SECOND, {T})", "the size of a bin is a constant INTERVAL", "date_bin"),
    ],
)
def test_what_names_nothing_is_refused(expression: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        values(expression)
    assert hint in caught.value.hint

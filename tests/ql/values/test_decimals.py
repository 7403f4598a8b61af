"""Decimals keep their digits. The expected values are a real Spark's (ANSI off)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

SMALL = "CAST('0.0000001255' AS DECIMAL(38,10))"
LONG = "CAST('12345678901234567890123456.0000001255' AS DECIMAL(38,10))"
NINES = "CAST('0.99999999999999999999999999999999999999' AS DECIMAL(38,38))"
CASES = {
    f"round({SMALL}, 10)": "1.255E-7",
    f"round({SMALL}, 11)": "1.255E-7",
    f"bround({SMALL}, 10)": "1.255E-7",
    f"bround({LONG}, 9)": "12345678901234567890123456.000000126",
    f"round({NINES}, 38)": "0.99999999999999999999999999999999999999",
    f"round({NINES}, 37)": "1.0000000000000000000000000000000000000",
    f"ceil({SMALL}, 10)": "1.255E-7",
    f"floor({SMALL}, 10)": "1.255E-7",
    f"floor({SMALL}, 9)": "1.25E-7",
    f"round({LONG}, -3)": "12345678901234567890123000",
    f"round({LONG})": "12345678901234567890123456",
    f"floor({LONG}, 2)": "12345678901234567890123456.00",
    "round(12.345BD, 2)": "12.35",
    "ceil(12.34BD, -1)": "2E+1",
    "round(99.95BD, 1)": "100.0",
    f"coalesce({SMALL}, 1BD)": "1.255E-7",
}


@pytest.mark.parametrize("expression", CASES)
def test_rounding_keeps_the_digits_that_are_asked_for(
    expression: str, rows_of: Callable[..., list[tuple[Any, ...]]]
) -> None:
    ((value,),) = rows_of(f"SELECT {expression} AS x FROM t", {"one": [1]})
    assert value == Decimal(CASES[expression])


def test_rounding_does_not_change_a_condition(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    text = f"SELECT one FROM t WHERE round({SMALL}, 10) = {SMALL}"
    assert rows_of(text, {"one": [1]}) == [(1,)]


DATA = {"ts": [1, 2, 3], "v": ["1.1", "2.2", None]}


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        ("sum", ["1.1", "3.3", "3.3"]),
        ("avg", ["1.1", "1.65", "1.65"]),
        ("min", ["1.1", "1.1", "1.1"]),
        ("max", ["1.1", "2.2", "2.2"]),
        ("first", ["1.1", "1.1", "1.1"]),
        ("any_value", ["1.1", "1.1", "1.1"]),
    ],
)
def test_aggregates_over_frames_keep_the_scale(
    function: str, wanted: list[str], rows_of: Callable[..., list[tuple[Any, ...]]]
) -> None:
    text = f"SELECT ts, {function}(CAST(v AS DECIMAL(2,1))) OVER (ORDER BY ts) AS s FROM t"
    rows = rows_of(text, DATA)
    assert [value for _, value in rows] == [Decimal(each) for each in wanted]
    assert all(value.as_tuple().exponent < 0 for _, value in rows)


def test_a_frame_of_one_row_and_an_empty_one_keep_the_scale(
    rows_of: Callable[..., list[tuple[Any, ...]]],
) -> None:
    over = "OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)"
    text = f"SELECT ts, sum(CAST(v AS DECIMAL(2,1))) {over} AS s FROM t"
    assert rows_of(text, DATA) == [(1, None), (2, Decimal("1.1")), (3, Decimal("2.2"))]


def test_sums_beyond_64_bits_stay_exact_over_frames(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    data = {"ts": [1, 2], "v": [2**63 - 1, 2**63 - 1]}
    rows = rows_of("SELECT ts, sum(v) OVER (ORDER BY ts) AS s FROM t", data)
    assert [int(value) for _, value in rows] == [2**63 - 1, 2**64 - 2]


def test_union_of_decimals_and_integers_keeps_the_wider_scale(
    rows_of: Callable[..., list[tuple[Any, ...]]],
) -> None:
    branches = ["CAST(v AS DECIMAL(3,1))", "CAST(v AS DECIMAL(10,3))", "7"]
    text = " UNION ALL ".join(f"SELECT {each} AS d FROM t WHERE ts = 2" for each in branches)
    assert rows_of(text, DATA) == [(Decimal("2.200"),), (Decimal("2.200"),), (Decimal("7.000"),)]

"""Patterns of format_number. The expected texts are a real Spark's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql.values.number_pattern import NumberPatternError, number_pattern

CASES = {
    "12332.123456, '##################.###'": "12332.123",
    "12345.678, '#,###.00'": "12,345.68",
    "0.5, '#,###.00'": ".50",
    "-0.5, '0.00'": "-0.50",
    "12345, '#.#'": "12345",
    "CAST(NULL AS BIGINT), '#'": None,
    "1234567.891, ''": "1,234,568",
    "1.5, '00%'": "150%",
    "2.5, '#'": "2",
    "1234.5, '#,##0.00 EUR'": "1,234.50 EUR",
    "-1234.5, '#,##0.00;(#)'": "(1,234.50)",
    "1234.5, '$#,##0'": "$1,234",
    "0.25, '#%'": "25%",
    "5, '000'": "005",
    "123456, '#,##,###'": "123,456",
    "0, '#'": "0",
    "0.0, '.00'": ".00",
    "double('nan'), '#'": "NaN",
    "double('-inf'), '#.0'": "-∞",
    "1.0, '0.0#'": "1.0",
    "1.256, '0.0#'": "1.26",
    "1234, 'abc'": "abc1234",
    "-5, '#;#'": "-5",
    "-5, '(#);(#)'": "-(5)",
    "5, '#.'": "5.",
    "0.7, '.#'": ".7",
    "1234, '#,#'": "1,2,3,4",
    "1234.567, '0,000.##'": "1,234.57",
    "5, '''#''#'": "#5",
    "1234567890123456789, '#,###'": "1,234,567,890,123,456,789",
    "-0.0, '0.0'": "-0.0",
    "2.675, 2": "2.67",
    "2.675BD, 2": "2.68",
    "0.125, 2": "0.12",
    "1e20, 2": "100,000,000,000,000,000,000.00",
    "-0.001, 2": "-0.00",
}


@pytest.mark.parametrize("arguments", CASES)
def test_numbers_are_written_as_spark_writes_them(
    arguments: str, rows_of: Callable[..., list[tuple[Any, ...]]]
) -> None:
    arguments = arguments.replace("'''#''#'", "\"'#'#\"")
    ((value,),) = rows_of(f"SELECT format_number({arguments}) AS x FROM t", {"one": [1]})
    assert value == CASES[arguments.replace("\"'#'#\"", "'''#''#'")]


@pytest.mark.parametrize(
    "pattern", [",", "0.0.0", "#.0,0", "0#.0", "#0#", "0.##E0", "'0", "0;0;0", "%#%", "0 0"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(NumberPatternError):
        number_pattern(pattern)


def test_a_bad_pattern_is_refused_at_its_place(rows_of: Callable[..., list[tuple[Any, ...]]]) -> None:
    with pytest.raises(QueryError) as caught:
        rows_of("SELECT format_number(one, '0.0.0') AS x FROM t", {"one": [1]})
    assert (caught.value.column, caught.value.message) == (27, "there is a second `.`")

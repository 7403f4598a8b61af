"""What a function takes: implicit conversions as Spark makes them, and constants where it wants them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from elfmesh.ql.expressions.registry import FUNCTIONS, function
from elfmesh.ql.functions import all  # noqa: F401 - fills the registry
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusal


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("upper(a)", {"a": [True]}, ["TRUE"]),
        ("sqrt(a)", {"a": ["9"]}, [3.0]),
        ("repeat('x', a)", {"a": ["2"]}, ["xx"]),
        ("year(a)", {"a": ["2024-05-01"]}, [2024]),
        ("base64(a)", {"a": ["a"]}, ["YQ=="]),
        ("upper(a)", {"a": [None]}, [None]),
    ],
)
def test_an_argument_is_converted_as_spark_converts_it(
    expression: str, columns: dict[str, Any], expected: list[Any]
) -> None:
    assert values(expression, **columns) == expected


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("upper(a)", {"a": [["x"]]}, "14: argument 1 of upper is ARRAY<STRING>, not STRING"),
        ("sqrt(a)", {"a": [True]}, "13: argument 1 of sqrt is BOOLEAN, not DOUBLE"),
        (
            "sqrt(a)",
            {"a": [date(2024, 1, 1)]},
            "is DATE, not DOUBLE | Convert it first: CAST(... AS DOUBLE).",
        ),
        ("repeat('x', a)", {"a": [True]}, "20: argument 2 of repeat is BOOLEAN, not BIGINT"),
        ("year(a)", {"a": [5]}, "argument 1 of year is BIGINT, not DATE"),
        ("round(a, b)", {"a": [1.5], "b": [1]}, "must be a constant | Write it as a number in the query."),
        ("regexp_count(a, b)", {"a": ["x"], "b": ["x"]}, "Write it as a 'string' in the query."),
    ],
)
def test_an_argument_of_another_type_is_refused_at_its_place(
    expression: str, columns: dict[str, Any], expected: str
) -> None:
    assert expected in refusal(f"SELECT {expression} AS x FROM t", **columns)


def test_no_name_is_entered_twice() -> None:
    with pytest.raises(AssertionError, match="upper"):
        function("upper", 1)(FUNCTIONS["upper"].build)


@pytest.mark.parametrize(
    ("name", "least", "most"), [("upper", 1, 1), ("locate", 2, 3), ("concat_ws", 1, None)]
)
def test_a_function_states_how_many_arguments_it_takes(name: str, least: int, most: int | None) -> None:
    assert (FUNCTIONS[name].least, FUNCTIONS[name].most) == (least, most)

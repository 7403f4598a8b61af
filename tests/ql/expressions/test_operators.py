"""Operators by Spark's rules with ANSI off: types of results, nulls, NaN, and what is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ql.conftest import run
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusal

NAN = float("nan")
DAY, TIME = date(2024, 2, 28), datetime(2024, 2, 28, 12, tzinfo=UTC)
LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("a + b", {"a": [1, LAST, None], "b": [2, 1, 1]}, [3, None, None]),
        ("a - b", {"a": [1, -LAST], "b": [2, 2]}, [-1, None]),
        ("a * b", {"a": [3, LAST], "b": [-2, 2]}, [-6, None]),
        ("a / b", {"a": [1, 1], "b": [4, 0]}, [0.25, None]),
        ("a % b", {"a": [-7, 7, 7], "b": [3, -3, 0]}, [-1, 1, None]),
        ("a % b", {"a": [-7.5], "b": [2.0]}, [-1.5]),
        ("a div b", {"a": [-7, 7], "b": [2, 0]}, [-3, None]),
        ("a + b", {"a": ["1.5", "x"], "b": [1, 1]}, [2.5, None]),
        ("a + b", {"a": [Decimal("1.5")], "b": [Decimal("2.25")]}, [Decimal("3.75")]),
        ("a * 10", {"a": [Decimal("1.5")]}, [Decimal("15.0")]),
        ("a + b", {"a": [Decimal("1.5")], "b": [0.25]}, [1.75]),
        ("a + NULL", {"a": [Decimal("1.5")]}, [None]),
        ("-a", {"a": [5, -LAST - 1, None]}, [-5, None, None]),
        ("-a", {"a": ["2.5"]}, [-2.5]),
        ("-a", {"a": [Decimal("2.5")]}, [Decimal("-2.5")]),
    ],
)
def test_arithmetic(expression: str, columns: dict[str, Any], expected: list[Any]) -> None:
    assert values(expression, **columns) == expected


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("a + INTERVAL '2' DAY", {"a": [DAY]}, [date(2024, 3, 1)]),
        ("INTERVAL '2' DAY + a", {"a": [DAY]}, [date(2024, 3, 1)]),
        ("a - INTERVAL '12' HOUR", {"a": [DAY]}, [datetime(2024, 2, 27, 12, tzinfo=UTC)]),
        ("a - INTERVAL '12' HOUR", {"a": [TIME]}, [datetime(2024, 2, 28, tzinfo=UTC)]),
        ("a + INTERVAL '1' HOUR", {"a": ["2024-02-28 12:00:00"]}, ["2024-02-28 13:00:00"]),
        ("a + n", {"a": [DAY, DAY], "n": [2, 2**40]}, [date(2024, 3, 1), None]),
        ("n + a", {"a": [DAY], "n": [2]}, [date(2024, 3, 1)]),
        ("a - n", {"a": [DAY], "n": [28]}, [date(2024, 1, 31)]),
        ("a + NULL", {"a": [DAY]}, [None]),
    ],
)
def test_days_and_intervals_move_dates(expression: str, columns: dict[str, Any], expected: list[Any]) -> None:
    assert values(expression, **columns) == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", [True, False, None, True, False]),
        ("<>", [False, True, None, False, True]),
        ("<", [False, True, None, False, False]),
        ("<=", [True, True, None, True, False]),
        (">", [False, False, None, False, True]),
        (">=", [True, False, None, True, True]),
        ("<=>", [True, False, False, True, False]),
    ],
)
def test_nan_equals_itself_and_is_above_all_numbers(operator: str, expected: list[Any]) -> None:
    a, b = [1.0, 1.0, None, NAN, NAN], [1.0, 2.0, 1.0, NAN, math.inf]
    assert values(f"a {operator} b", a=a, b=b) == expected


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("NULL <=> NULL", {}, [True]),
        ("a = b", {"a": ["10", "x"], "b": [10, 10]}, [True, None]),
        ("a AND b", {"a": [None, None, True], "b": [False, True, True]}, [False, None, True]),
        ("a OR b", {"a": [None, None], "b": [False, True]}, [None, True]),
        ("NOT a", {"a": [True, None]}, [False, None]),
        ("a IS NULL", {"a": [1, None]}, [False, True]),
        ("a IS TRUE", {"a": [True, False, None]}, [True, False, False]),
        ("a IS FALSE", {"a": [True, False, None]}, [False, True, False]),
        ("a IN (1, 2)", {"a": [1, 3, None]}, [True, False, None]),
        ("a IN (1, NULL)", {"a": [1, 3]}, [True, None]),
        ("a IN (0.0)", {"a": [-0.0, NAN]}, [True, False]),
        ("a IN (b, 2)", {"a": [1, 2, 3], "b": [1, 1, None]}, [True, True, None]),
        ("a IN (b, 0.5D)", {"a": [NAN, NAN], "b": [1.0, NAN]}, [False, True]),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 END", {"a": [True, None], "b": [True, True]}, [1, 2]),
        ("CASE WHEN a THEN 1 ELSE 2.5 END", {"a": [True, False]}, [1.0, 2.5]),
    ],
)
def test_comparison_logic_and_choice(expression: str, columns: dict[str, Any], expected: list[Any]) -> None:
    assert values(expression, **columns) == expected


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("a + 1", {"a": [True]}, "`+` does not work on BOOLEAN | Convert it first: CAST(... AS BIGINT)."),
        ("a div 2", {"a": [1.5]}, "div works on integers only | Write floor(a / b), or CAST"),
        ("-a", {"a": [DAY]}, "`-` does not work on DATE | Convert it first"),
        ("a * a", {"a": [DAY]}, "`*` does not work on DATE | Convert it first"),
        ("a + 1.5D", {"a": [DAY]}, "`+` does not work on DATE and DOUBLE | Write date + INTERVAL '1' DAY"),
        ("a < b", {"a": [True], "b": [TIME]}, "`<` cannot compare BOOLEAN with TIMESTAMP | Convert one side"),
        ("NOT a", {"a": [1]}, "a condition must be BOOLEAN, not BIGINT | Write a comparison"),
        ("a IN (1, true)", {"a": [1]}, "IN mixes BIGINT and BOOLEAN | Convert one side"),
        ("CASE WHEN a = 1 THEN 1 ELSE true END", {"a": [1]}, "CASE mixes BIGINT and BOOLEAN as results"),
    ],
)
def test_types_that_an_operator_does_not_take_are_refused(
    expression: str, columns: dict[str, Any], expected: str
) -> None:
    assert expected in refusal(f"SELECT {expression} AS x FROM t", **columns)


@given(st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=5))
def test_de_morgan_holds_with_nulls(one: list[bool | None]) -> None:
    pairs = [(a, b) for a in one for b in (True, False, None)]
    a, b = ([pair[at] for pair in pairs] for at in (0, 1))
    assert values("NOT (a AND b)", a=a, b=b) == values("NOT a OR NOT b", a=a, b=b)


LISTED: dict[str, list[Any]] = {
    "l": [[1, 2], [1], [], None, [None], [2]],
    "m": [[1, 3], [1], [0], [1], [None], None],
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("l = m", [False, True, False, None, True, None]),
        ("l <> m", [True, False, True, None, False, None]),
        ("l < m", [True, False, True, None, False, None]),
        ("l >= m", [False, True, False, None, True, None]),
        ("l <=> m", [False, True, False, False, True, False]),
        ("l <=> NULL", [False, False, False, True, False, False]),
        ("l = array(1.0D)", [False, True, False, None, False, False]),
        ("l IN (array(2), array(1, 2))", [True, False, False, None, False, True]),
        ("l IN (m, array(2))", [False, True, False, None, True, True]),
        ("l NOT IN (array(1), NULL)", [None, False, None, None, None, None]),
        ("l BETWEEN array() AND array(1)", [False, True, True, None, True, False]),
        ("nullif(l, m)", [[1, 2], None, [], None, None, [2]]),
        ("greatest(l, m)", [[1, 3], [1], [0], [1], [None], [2]]),
        ("CASE l WHEN m THEN 1 ELSE 0 END", [0, 1, 0, 0, 1, 0]),
    ],
)
def test_lists_are_compared_by_their_elements(expression: str, expected: list[Any]) -> None:
    """A null element equals a null element and is the least, as in Spark; NaN equals NaN."""
    assert values(expression, **LISTED) == expected


def test_structs_are_compared_by_their_fields() -> None:
    given = [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None]
    table = pa.table({"id": [1, 2, 3], "s": given, "t": [given[0]] * 3})
    (found,) = run("SELECT s = t AS e, s < t AS l FROM log ORDER BY id", table).values()
    assert found.to_pylist() == [{"e": True, "l": False}, {"e": False, "l": True}, {"e": None, "l": None}]


@pytest.mark.parametrize("operator", ["=", "<", "<=>", "IN"])
def test_maps_are_not_compared(operator: str) -> None:
    other = "(map('a', a))" if operator == "IN" else "map('a', a)"
    assert "MAP<STRING,BIGINT>" in refusal(f"SELECT map('a', a) {operator} {other} AS x FROM t", a=[1])
    assert "ARRAY<BIGINT>" in refusal("SELECT array(a) = 'x' AS x FROM t", a=[1])

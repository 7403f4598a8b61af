"""From expressions to operands: types of columns, missing fields, and expressions that are one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Duration, Expr, FieldRef, Literal, WindowBound
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.ql.functions.compiler import Compiler, read_column
from elfmesh.ql.values.types import BIGINT, DOUBLE, DURATION, STRING, TIMESTAMP, VOID
from tests.ql.conftest import run
from tests.ql.functions.evaluating import values

AT = TextPosition(1, 8)
NOON = datetime(2024, 2, 28, 12, tzinfo=UTC)


def compiler(**types: pa.DataType) -> Compiler:
    return Compiler(types, SourceText("SELECT x"))


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array([1, None], pa.int8()), BIGINT, [1, None]),
        (pa.array([1.5], pa.float32()), DOUBLE, [1.5]),
        (pa.array([5, 2**63], pa.uint64()), BIGINT, [5, None]),  # no bigint: null, as what does not fit
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ns")), TIMESTAMP, [NOON]),
        (pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), TIMESTAMP, [NOON]),
        (pa.chunked_array([[1], [2]], BIGINT), BIGINT, [1, 2]),
    ],
    ids=lambda given: str(getattr(given, "type", "")),
)
def test_a_column_is_widened(column: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    found = read_column(column)
    assert (found.type, found.to_pylist()) == (kind, expected)


@pytest.mark.parametrize(
    ("expr", "kind", "expected"),
    [
        (Literal("bigint", 7), BIGINT, [7, 7]),
        (Literal("null", None), VOID, [None, None]),
        (FieldRef("a"), BIGINT, [1, 2]),
        (FieldRef("missing"), VOID, [None, None]),
        (WindowBound("start"), TIMESTAMP, [NOON, NOON]),
        (Duration(5), DURATION, None),
        (Call("cast", (Duration(5),), "STRING"), STRING, ["INTERVAL '0 00:00:00.000005' DAY TO SECOND"] * 2),
        (Call("+", (FieldRef("a"), Literal("bigint", 1))), BIGINT, [2, 3]),
        (Call("upper", (Literal("string", "x"),)), STRING, ["X", "X"]),
        (Call("cast", (FieldRef("a"),), "STRING"), STRING, ["1", "2"]),
        (Call("try_cast", (FieldRef("f"),), "BIGINT"), BIGINT, [1, None]),
        (Call("cast", (FieldRef("f"),), "BIGINT"), BIGINT, [1, 2**63 - 1]),
    ],
    ids=str,
)
def test_an_expression(expr: Expr, kind: pa.DataType, expected: list[Any] | None) -> None:
    operand = compiler(a=pa.int32(), f=pa.float64()).compile(expr)
    columns = {
        "a": pa.array([1, 2]),
        "f": pa.array([1.5, 1e300]),
        "window.start": pa.array([NOON] * 2, TIMESTAMP),
    }
    assert operand.type == kind
    if expected is not None:
        assert operand.array(Env(columns, 2)).to_pylist() == expected


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (FieldRef("t", at=AT), "t is time64"),
        (Call("upper", (Duration(5),), at=AT), "upper does not take an INTERVAL"),
        (Call("cast", (FieldRef("a"),), "DATE", at=AT), "BIGINT cannot be cast to DATE"),
        (Call("cast", (Duration(5),), "BIGINT", at=AT), "cannot be cast to BIGINT"),
    ],
    ids=str,
)
def test_types_that_an_expression_cannot_use_are_refused_at_their_place(expr: Expr, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        compiler(a=pa.int64(), t=pa.time64("us")).compile(expr)
    assert (caught.value.line, caught.value.column) == (1, 8)


def test_equal_expressions_are_one_operand() -> None:
    one = compiler(a=BIGINT)
    first, second = (
        Call("+", (FieldRef("a", at=TextPosition(1, at)), Literal("bigint", 1))) for at in (1, 9)
    )
    assert one.compile(first) is one.compile(second)
    assert one.compile(first) is not one.compile(Call("+", (FieldRef("a"), Literal("bigint", 2))))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CAST(0.1F AS STRING)", "0.1"),
        ("CAST(CAST(0.1 AS FLOAT) AS DOUBLE)", 0.10000000149011612),
        ("16777217 = CAST(16777216 AS FLOAT)", True),
        ("0.1F = 0.1D", False),
        ("CAST('NaN' AS FLOAT) > 1e30D", True),
        ("CAST(0.1F + 0.2F AS STRING)", "0.3"),
        ("typeof(1F + 1BD)", "double"),
        ("1F / 4", 0.25),
        ("CASE WHEN true THEN 1F ELSE 2 END = 1", True),
    ],
)
def test_a_float_is_a_step_of_an_expression(expression: str, expected: object) -> None:
    assert values(expression) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(a AS FLOAT) AS f FROM t",
        "SELECT count(*) AS n FROM t GROUP BY CAST(a AS FLOAT)",
        "SELECT a FROM t ORDER BY CAST(a AS FLOAT)",
        "SELECT CAST(sum(a) AS FLOAT) AS f FROM t",
        "SELECT sum(CAST(a AS FLOAT)) AS f FROM t",
        "SELECT abs(CAST(a AS FLOAT)) AS f FROM t",
        "SELECT array(CAST(a AS FLOAT)) AS f FROM t",
        "SELECT count(*) AS n FROM t x JOIN t y ON CAST(x.a AS FLOAT) = CAST(y.a AS FLOAT)",
        "SELECT lag(CAST(a AS FLOAT)) OVER (ORDER BY a) AS f FROM t",
    ],
)
def test_no_column_and_no_other_function_takes_a_float(text: str) -> None:
    with pytest.raises(QueryError, match="FLOAT") as caught:
        run(text, {"a": [1, 2]})
    assert "CAST(x AS DOUBLE)" in caught.value.hint

"""INTERSECT and EXCEPT: Spark's rows over nulls, duplicates and several types, and the label of a job."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.conftest import run
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a, b FROM s INTERSECT SELECT a FROM s", 1, 37, "INTERSECT of 2 and 1 columns", "equally many"),
    ("SELECT a FROM s EXCEPT SELECT a, b FROM s", 1, 31, "EXCEPT of 1 and 2 columns", "equally many"),
)  # fmt: skip

ROWS = {"k": [1, 1, 1, 2, None, None, 3, 1, 1, None, 4], "side": [*"aaaaaaa", *"bbbb"]}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("INTERSECT", [None, 1]),
        ("INTERSECT DISTINCT", [None, 1]),
        ("INTERSECT ALL", [None, 1, 1]),
        ("EXCEPT", [2, 3]),
        ("MINUS", [2, 3]),
        ("EXCEPT ALL", [None, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("type_of_b", ["k", "k * 1.0D", "CAST(k AS DECIMAL(5, 1))"])
def test_equal_rows_are_counted(operation: str, expected: list[int | None], type_of_b: str) -> None:
    text = (
        f"SELECT k FROM s WHERE side = 'a' {operation} SELECT {type_of_b} FROM s WHERE side = 'b' ORDER BY k"
    )
    (table,) = run(text, ROWS).values()
    assert [None if each is None else int(each) for each in table.column("k").to_pylist()] == expected


def test_rows_of_one_interval_are_compared() -> None:
    text = (
        "SELECT k FROM s WHERE side = 'a' EXCEPT SELECT k FROM s GROUP BY TUMBLE(ts, '10 s'), k HAVING k > 1"
    )
    times = ["2015-05-17T10:05:00Z"] * 7 + ["2015-05-17T10:05:10Z"] * 4
    found = [table.column("k").to_pylist() for table in run(text, {**ROWS, "ts": times}).values()]
    assert found == [[None, 1], []]


@pytest.mark.parametrize("operation", ["INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
def test_the_columns_are_those_of_the_first_query(operation: str) -> None:
    statement = parse(f"SELECT a AS x FROM s {operation} SELECT a FROM s")
    assert statement.columns == ("x",)

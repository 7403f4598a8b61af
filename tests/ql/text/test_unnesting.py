"""Queries in brackets that depend on the rows outside, as joins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.ql import parse
from elfmesh.ql.plan.relation import JoinRelation
from tests.ql.conftest import run_streams
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (
        "SELECT (SELECT a FROM t WHERE t.b = s.b) FROM s",
        1, 16, "must select aggregates", "LEFT JOIN (SELECT",
    ),
    ("SELECT a FROM s WHERE a IN (SELECT b FROM t) OR a = 1", 1, 23, "joined by AND", "SEMI"),
    ("SELECT a IN (SELECT b FROM t) FROM s", 1, 8, "joined by AND", "SEMI"),
    ("SELECT a FROM s WHERE a IN (SELECT b, c FROM t)", 1, 23, "query with 1 column", ""),
    (
        "SELECT a FROM s WHERE (a, b) NOT IN (SELECT b, c FROM t)",
        1, 24, "several columns", "NOT EXISTS",
    ),
    (
        "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a > s.a) OR a = 1",
        1, 55, "this correlated subquery can be correlated only by equality", "LEFT JOIN",
    ),
    (
        "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a LIMIT 2) OR a = 1",
        1, 38, "this correlated EXISTS must be a condition of WHERE", "SEMI",
    ),
    (
        "SELECT a FROM s GROUP BY a HAVING EXISTS (SELECT 1 FROM t WHERE t.a = s.a)",
        1, 50, "this correlated EXISTS must be a condition of WHERE", "SEMI",
    ),
    (
        "SELECT s.a FROM s JOIN u ON EXISTS (SELECT 1 FROM t WHERE t.a = s.a)",
        1, 44, "this correlated EXISTS must be a condition of WHERE", "SEMI",
    ),
    (
        "SELECT a FROM s WHERE EXISTS (SELECT t.a FROM t WHERE t.a = s.a GROUP BY 1)",
        1, 40, "GROUP", "JOIN",
    ),
    (
        "SELECT a FROM s WHERE EXISTS (SELECT max(t.b) FROM t WHERE t.a = s.a)",
        1, 0, "an aggregate", "JOIN",
    ),
    (
        "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t JOIN u ON t.a = s.a)",
        1, 65, "only in WHERE", "JOIN",
    ),
    (
        "SELECT a FROM s WHERE a IN (SELECT max(b) FROM t WHERE t.c = s.c)",
        1, 23, "an aggregate", "LEFT",
    ),
    (
        "SELECT a FROM s WHERE b = (SELECT max(b) FROM t WHERE t.c < s.c)",
        1, 57, "only by equality", "LEFT",
    ),
    (
        "SELECT a FROM s WHERE b = (SELECT hll_sketch_agg(a) FROM t WHERE t.c = s.c)",
        1, 35, "sketch", "LEFT",
    ),
    (
        "SELECT a, (SELECT max(b) FROM t WHERE t.c = s.a) FROM s GROUP BY a",
        1, 19, "after GROUP BY", "LEFT",
    ),
    (
        "SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.x = s.a LIMIT 0)",
        1, 42, "LIMIT in", "JOIN",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ("a IN (SELECT b FROM t)", ["semi"]),
        ("EXISTS (SELECT 1 FROM t WHERE t.a = s.a AND t.b > 1)", ["semi"]),
        ("NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a)", ["anti"]),
        ("(a, b) IN (SELECT c, d FROM t)", ["semi"]),
        ("b > (SELECT count(*) FROM t WHERE t.a = s.a)", ["left"]),
        ("EXISTS (SELECT 1 FROM t WHERE t.a = s.a) AND a IN (SELECT b FROM t)", ["semi", "semi"]),
    ],
)
def test_a_query_in_where_is_a_join(condition: str, kinds: list[str]) -> None:
    relation: Any = parse(f"SELECT a FROM s WHERE {condition}").relation
    found = []
    while relation is not None:
        if isinstance(relation, JoinRelation):
            found.append(relation.kind)
            relation = relation.left
        else:
            relation = getattr(relation, "source", None)
    assert found == kinds


S = {"a": [1, 2, 3], "b": [0, 1, None]}
T = {"a": [1, 1, None], "b": [1, 5, 2]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM s WHERE a IN (SELECT b FROM t)", [1, 2]),
        ("SELECT a FROM s WHERE a NOT IN (SELECT b FROM t)", [3]),
        ("SELECT a FROM s WHERE a NOT IN (SELECT t.a FROM t)", []),  # a null in the list: unknown
        ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.a)", [1]),
        ("SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = s.a)", [2, 3]),
        ("SELECT a FROM s WHERE b < (SELECT count(*) FROM t WHERE t.a = s.a)", [1]),
        ("SELECT (SELECT max(b) FROM t WHERE t.a = s.a) AS a FROM s", [5, None, None]),
        ("SELECT (SELECT count(*) FROM t WHERE t.a = s.a) AS a FROM s", [2, 0, 0]),
    ],
)
def test_rows_are_those_of_sql(query: str, expected: list[Any]) -> None:
    (table,) = run_streams(parse(query), {"s": pa.table(S), "t": pa.table(T)}).values()
    assert sorted(table.column("a").to_pylist(), key=lambda a: (a is None, a)) == sorted(
        expected, key=lambda a: (a is None, a)
    )


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("EXISTS (SELECT 1 FROM t WHERE t.y = s.x) AS e", [False, True, False]),
        ("NOT EXISTS (SELECT 1 FROM t WHERE t.y = s.x AND t.z > 5) AS e", [True, False, True]),
        ("EXISTS (SELECT DISTINCT z FROM t WHERE t.y <=> s.x ORDER BY z) OR x = 1 AS e", [True, True, None]),
        ("CASE WHEN EXISTS (SELECT * FROM t WHERE t.y = s.x) THEN 'a' END AS e", [None, "a", None]),
    ],
)
def test_exists_is_a_value(items: str, expected: list[object]) -> None:
    rows = {"s": pa.table({"x": [1, 2, None]}), "t": pa.table({"y": [2, 2, 3], "z": [4, 6, 7]})}
    (found,) = run_streams(parse(f"SELECT x, {items} FROM s ORDER BY x NULLS LAST"), rows).values()
    assert found.column("e").to_pylist() == expected


def test_exists_among_other_conditions_filters() -> None:
    rows = {"s": pa.table({"x": [1, 2, 3]}), "t": pa.table({"y": [2, 2]})}
    text = "SELECT x FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.y = s.x) OR x = 3 ORDER BY x"
    (found,) = run_streams(parse(text), rows).values()
    assert found.column("x").to_pylist() == [2, 3]

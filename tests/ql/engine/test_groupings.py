"""GROUP BY with several groupings: keys are values of the records, computed once, before the grouping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse

Rows = Callable[..., list[tuple[Any, ...]]]
DATA = {"ts": [1, 2, 3], "k": ["a", "a", "b"], "v": [5, 6, 7]}
NONE: dict[str, list[Any]] = {"ts": [], "k": [], "v": []}

CASES = {
    "SELECT k, v, count(*) AS n FROM t GROUP BY k, v GROUPING SETS ((k), ())": [
        (None, None, 3), ("a", None, 2), ("b", None, 1),
    ],
    "SELECT k, v, count(*) AS n FROM t GROUP BY v, GROUPING SETS ((k), ())": [
        (None, 5, 1), (None, 6, 1), (None, 7, 1), ("a", 5, 1), ("a", 6, 1), ("b", 7, 1),
    ],
    "SELECT k, v, count(*) AS n FROM t GROUP BY k GROUPING SETS ((k), (v))": [
        (None, 5, 1), (None, 6, 1), (None, 7, 1), ("a", None, 2), ("b", None, 1),
    ],
    "SELECT k, v, count(*) AS n, grouping_id() AS g FROM t GROUP BY k, v GROUPING SETS ((k), ())": [
        (None, None, 3, 3), ("a", None, 2, 1), ("b", None, 1, 1),
    ],
    "SELECT k, v, grouping_id(v, k) AS g FROM t GROUP BY GROUPING SETS ((v), (k))": [
        (None, 5, 1), (None, 6, 1), (None, 7, 1), ("a", None, 2), ("b", None, 2),
    ],
    "SELECT k, grouping_id() AS g, grouping(k) AS h FROM t GROUP BY GROUPING SETS ((k))": [
        ("a", 0, 0), ("b", 0, 0),
    ],
    "SELECT k, count(*) AS n FROM t GROUP BY GROUPING SETS (GROUPING SETS (k), CUBE (k))": [
        (None, 3), ("a", 2), ("a", 2), ("b", 1), ("b", 1),
    ],
    "SELECT k, v, count(*) AS n FROM t GROUP BY GROUPING SETS (ROLLUP (k, v), (v)) HAVING count(*) > 1": [
        (None, None, 3), ("a", None, 2),
    ],
    "SELECT k, count(*) AS n FROM t GROUP BY k, ROLLUP (k)": [("a", 2), ("a", 2), ("b", 1), ("b", 1)],
    "SELECT k, upper(k) AS u, count(*) AS n FROM t GROUP BY CUBE(k, upper(k))": [
        (None, None, 3), (None, "A", 2), (None, "B", 1), ("a", None, 2), ("a", "A", 2), ("b", None, 1),
        ("b", "B", 1),
    ],
    "SELECT k, coalesce(k, 'z') AS c, sum(v) AS s FROM t GROUP BY CUBE(k, coalesce(k, 'z'))": [
        (None, None, 18), (None, "a", 11), (None, "b", 7), ("a", None, 11), ("a", "a", 11), ("b", None, 7),
        ("b", "b", 7),
    ],
    "SELECT coalesce(k, v) AS c, v FROM t GROUP BY CUBE(coalesce(k, v), v) HAVING grouping(v) = 1": [
        (None, None), ("a", None), ("b", None),
    ],
    "SELECT k, count(*) AS n FROM t GROUP BY ROLLUP(k <> 'b', k)": [
        (None, 1), (None, 2), (None, 3), ("a", 2), ("b", 1),
    ],
    "SELECT 'x' AS c, count(*) AS n FROM t GROUP BY CUBE('x')": [(None, 3), ("x", 3)],
    "SELECT k, v + 1 AS w, count(*) AS n FROM t GROUP BY ROLLUP(1, 2)": [
        (None, None, 3), ("a", None, 2), ("a", 6, 1), ("a", 7, 1), ("b", None, 1), ("b", 8, 1),
    ],
    "SELECT k, rank() OVER (PARTITION BY grouping(k) ORDER BY sum(v)) AS r FROM t GROUP BY ROLLUP(k)": [
        (None, 1), ("a", 2), ("b", 1),
    ],
    "SELECT k, sum(sum(v)) OVER () AS s FROM t GROUP BY CUBE(k)": [(None, 36), ("a", 36), ("b", 36)],
    "SELECT 2 AS x FROM t GROUP BY ALL": [(2,)],
    "SELECT 2 AS x, count(*) AS n FROM t GROUP BY ALL": [(2, 3)],
    "SELECT (SELECT max(v) FROM t) AS x FROM t GROUP BY ALL": [(7,)],
    "SELECT k, (SELECT max(v) FROM t) + max(v) AS x FROM t GROUP BY ALL": [("a", 13), ("b", 14)],
    "SELECT k, (SELECT max(v) FROM t) + v AS x FROM t GROUP BY ALL": [("a", 12), ("a", 13), ("b", 14)],
    "SELECT sum(v) OVER (PARTITION BY 2) AS s FROM t": [(18,), (18,), (18,)],
    "SELECT v, sum(v) OVER (PARTITION BY 9, k ORDER BY 4) AS s FROM t": [(5, 11), (6, 11), (7, 7)],
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_groupings_are_those_of_spark(text: str, rows_of: Rows) -> None:
    assert rows_of(text, DATA) == CASES[text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 2 AS x FROM t GROUP BY ALL", []),
        ("SELECT 2 AS x, count(*) AS n FROM t GROUP BY ALL", []),
        ("SELECT count(*) AS n FROM t GROUP BY ALL", [(0,)]),
        ("SELECT k, count(*) AS n FROM t GROUP BY CUBE(k)", []),
    ],
)
def test_groups_of_no_records(text: str, expected: list[Any], rows_of: Rows) -> None:
    assert rows_of(text, NONE) == expected


@pytest.mark.parametrize(
    ("text", "column", "reported"),
    [
        ("SELECT grouping_id(k) AS g FROM t GROUP BY k", 8, "grouping_id needs GROUPING SETS"),
        ("SELECT grouping_id(k, v) AS g FROM t GROUP BY CUBE(v, k)", 8, "grouping_id takes all columns"),
        ("SELECT rollup(k) AS g FROM t", 8, "are allowed only in GROUP BY"),
        ("SELECT k FROM t GROUP BY CUBE(k) GROUPING SETS ((k))", 34, "must come after plain keys"),
        ("SELECT k FROM t GROUP BY CUBE(k), v WITH ROLLUP", 26, "WITH ROLLUP"),
    ],
)
def test_groupings_without_a_meaning_are_refused_at_their_place(
    text: str, column: int, reported: str
) -> None:
    with pytest.raises(QueryError, match=reported) as refused:
        parse(text)
    assert refused.value.where == f"query:1:{column}"


def test_the_second_query_of_a_union_needs_no_names(rows_of: Rows) -> None:
    text = "SELECT count(*) AS a, count(*) AS b FROM t UNION SELECT {0}, {0} FROM t"
    assert rows_of(text.format("count(*)"), DATA) == [(3, 3)]
    assert rows_of(text.format("v"), DATA) == [(3, 3), (5, 5), (6, 6), (7, 7)]
    nested = "SELECT 'x' AS a, 2 AS b FROM t UNION (SELECT v, v FROM t UNION SELECT k, v FROM t)"
    assert len(rows_of(nested, DATA)) == 7


IN_CASES = {
    "text IN (SELECT v FROM t)": [],
    "text NOT IN (SELECT v FROM t)": [5, 6, 7],
    "(text, k) IN (SELECT v, k FROM t)": [],
    "v IN (SELECT text FROM t)": [],
    "v IN (SELECT CAST(v AS DOUBLE) FROM t)": [5, 6, 7],
    "text IN (SELECT q.v FROM t q WHERE q.k = x.k)": [],
    "text NOT IN (SELECT q.v FROM t q WHERE q.k = x.k)": [5, 6, 7],
    "DATE'2020-01-01' IN (SELECT '2020-1-1' FROM t)": [],
    "DATE'2020-01-01' IN (SELECT '2020-01-01' FROM t)": [5, 6, 7],
    "DATE'2020-01-01' IN (SELECT TIMESTAMP'2020-01-01 00:00:00' FROM t)": [5, 6, 7],
    "TIMESTAMP'2020-01-01 00:00:00' IN (SELECT '2020-01-01' FROM t)": [],
}


@pytest.mark.parametrize("condition", IN_CASES)
def test_in_compares_with_a_query_as_with_a_list(condition: str, rows_of: Rows) -> None:
    data = {**DATA, "text": ["05", "06", "07"]}
    found = rows_of(f"SELECT v FROM t x WHERE {condition}", data)
    assert [v for (v,) in found] == IN_CASES[condition]

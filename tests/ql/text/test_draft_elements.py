"""LATERAL VIEW and UNNEST: how a list or map is taken apart, and under which names."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT posexplode(a, b) FROM s", 1, 8, "posexplode takes one list or map", "LATERAL VIEW"),
    ("SELECT posexplode(a) AS (n, k, v, x) FROM s", 1, 8, "need 2 or 3 names", "AS a, b"),
    (
        "SELECT posexplode(a) AS (n, e), count(*) AS c FROM s GROUP BY 1",
        1, 8, "one generator", "LATERAL",
    ),
    ("SELECT a FROM s LATERAL VIEW upper(b) t AS c", 1, 30, "takes explode", "LATERAL VIEW [OUTER]"),
    ("SELECT a FROM s LATERAL VIEW explode(b) t AS k, v, w", 1, 30, "need 1 or 2 names", "AS a, b"),
    ("SELECT a FROM s LATERAL VIEW explode(b, c) t AS d", 1, 30, "one list or map", "LATERAL VIEW"),
    ("SELECT a FROM s RIGHT JOIN UNNEST(b) AS t(c) ON TRUE", 1, 35, "CROSS JOIN", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s LEFT JOIN UNNEST(b) AS t(c) ON a = c", 1, 34, "CROSS JOIN", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s CROSS JOIN UNNEST(b, c) AS t(d)", 1, 35, "one list or map", "UNNEST(x) AS t(e)"),
    ("SELECT a FROM s CROSS JOIN UNNEST(b) AS t", 1, 35, "need names", "UNNEST(x) AS t(e)"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT e FROM s LATERAL VIEW explode(b) t AS e", ("e",)),
        ("SELECT t.k, v FROM s LATERAL VIEW OUTER explode(b) t AS k, v", ("k", "v")),
        ("SELECT p, e FROM s LATERAL VIEW posexplode(b) t AS p, e", ("p", "e")),
        ("SELECT e, o FROM s CROSS JOIN UNNEST(b) WITH ORDINALITY AS t(e, o)", ("e", "o")),
        ("SELECT e FROM s, UNNEST(b) AS t(e)", ("e",)),
        ("SELECT e FROM s LEFT JOIN UNNEST(b) AS t(e) ON TRUE", ("e",)),
        ("SELECT e FROM s CROSS JOIN LATERAL explode(b) AS t(e)", ("e",)),
        ("SELECT f FROM s LATERAL VIEW explode(b) t AS e LATERAL VIEW explode(e) u AS f", ("f",)),
    ],
)
def test_elements_are_columns(text: str, columns: tuple[str, ...]) -> None:
    statement = parse(text)
    assert statement.columns == columns
    assert [part.fields for part in statement.parts] == [("b",)]

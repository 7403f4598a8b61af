"""New names for the columns of a query in brackets: q(a, b)."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT sum(a) OVER v AS x FROM s WINDOW w AS (ORDER BY b)", 1, 8, "no window v", "There are w"),
    (
        "SELECT x FROM (SELECT a, b FROM s) AS q(x)",
        1, 41, "q has 2 columns, and 1 names", "each column a",
    ),
    ("SELECT x FROM (SELECT a, b FROM s) AS q(x, X)", 1, 41, "q has two columns of one name", "its own"),
    ("WITH q(x, y) AS (SELECT a FROM s) SELECT x FROM q", 1, 8, "q has 1 columns, and 2 names", ""),
    ("SELECT a FROM s AS q(x)", 1, 22, "the columns of s have no order", "SELECT x AS a"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT x, y FROM (SELECT a, b FROM s) AS q(x, y)", ("x", "y")),
        ("WITH q(x) AS (SELECT a FROM s) SELECT q.x FROM q", ("x",)),
        ("SELECT x FROM (SELECT a FROM s UNION ALL SELECT b FROM s) AS q(x)", ("x",)),
    ],
)
def test_columns_are_renamed_by_place(text: str, columns: tuple[str, ...]) -> None:
    assert parse(text).columns == columns

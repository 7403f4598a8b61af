"""Clauses stand in their order, as in Spark; a word that is a field of a log is no clause."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.refusals import refusing


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("SELECT k FROM t LIMIT 3 WHERE v > 1", 25, "WHERE is after LIMIT"),
        ("SELECT k FROM t ORDER BY k GROUP BY k", 28, "GROUP BY is after ORDER BY"),
        ("SELECT k FROM t OFFSET 1 LIMIT 2", 26, "LIMIT is after OFFSET"),
        ("SELECT k FROM t HAVING count(*) > 1 GROUP BY k", 37, "GROUP BY is after HAVING"),
        ("SELECT k FROM t WHERE v > 1 JOIN u ON t.a = u.a", 29, "JOIN is after WHERE"),
        ("SELECT k FROM t LIMIT 1 ORDER BY k", 25, "ORDER BY is after LIMIT"),
        ("SELECT k FROM t WHERE v = 1, u", 28, "unexpected comma in WHERE"),
        ("SELECT k FROM t WHERE v > 1 LATERAL VIEW explode(a) x AS e", 29, "LATERAL is after WHERE"),
        ("SELECT k FROM (SELECT k FROM t LIMIT 3 WHERE v > 1) q", 40, "WHERE is after LIMIT"),
        ("SELECT k FROM t ORDER BY k UNION ALL SELECT k FROM t", 28, "ORDER BY is before UNION"),
        ("SELECT k FROM t LIMIT 1 UNION ALL SELECT k FROM t", 25, "LIMIT is before UNION"),
    ],
)
def test_a_clause_behind_those_it_comes_before_is_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT offset, limit FROM t WHERE offset > 5 AND t.limit < 3 ORDER BY offset LIMIT 3 OFFSET 1",
        "SELECT k, sum(v) OVER w AS s FROM t WHERE v > 1 WINDOW w AS (PARTITION BY k ORDER BY v) LIMIT 2",
        "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '1 minute') ORDER BY s LIMIT 1",
        "(SELECT k FROM t ORDER BY k LIMIT 1) UNION ALL SELECT k FROM t WHERE v > 1 ORDER BY k LIMIT 2",
        "SELECT count(*) FILTER (WHERE v > 1) AS n FROM t WHERE k IN ('a', 'b') GROUP BY k, v HAVING n > 1",
        "SELECT a.k FROM t a JOIN u b ON a.k = b.k JOIN t c ON c.k = b.k WHERE a.v > 1",
    ],
)
def test_what_is_in_order_is_read(text: str) -> None:
    assert parse(text).columns


test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a FROM s WHERE", 1, 17, "nothing follows WHERE", "a = 1"),
    ("SELECT a AS 'b' FROM s", 1, 13, "a string is not a name", "AS b."),
    ('SELECT a AS "b c" FROM s', 1, 13, "a string is not a name", "AS `b c`."),
)  # fmt: skip

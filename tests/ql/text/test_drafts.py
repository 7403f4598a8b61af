"""Queries in queries: WITH, joins, UNION, values in brackets, and clauses that ELF-QL lacks."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a", 1, 8, "does not say FROM which stream it reads, and names a", "Add FROM stream."),
    ("SELECT 1 AS b, s.a", 1, 18, "does not say FROM which stream it reads, and names s.a", "Add FROM"),
    ("SELECT *", 1, 8, "does not say FROM which stream it reads, and `*` has no columns", "Add FROM stream."),
    ("SELECT ts", 1, 8, "does not say FROM which stream it reads, and names ts", "Add FROM stream."),
    ("SELECT FROM s", 1, 1, "selects nothing", "columns"),
    ("SELECT a FROM shop.top ON (role = 'web')", 1, 0, "results have no labels", "agents of a stream"),
    ("SELECT s.a FROM s CROSS JOIN t ON s.a = t.a", 1, 30, "takes no ON", "JOIN other ON"),
    ("SELECT from FROM s", 1, 1, "selects nothing", "written `from`"),
    ("SELECT a FROM s UNION ALL SELECT b, c FROM t", 1, 34, "UNION of 1 and 2 columns", "equally many"),
    ("SELECT a FROM s ORDER BY ALL, a", 1, 31, "ORDER BY ALL stands alone", "ORDER BY 1, 2"),
    (
        "SELECT a FROM s UNION ALL BY NAME SELECT a FROM t",
        1, 0, "BY NAME is not supported", "one order",
    ),
    ("SELECT (SELECT a, b FROM s) FROM s", 1, 16, "one column, not 2", ""),
    ("SELECT DISTINCT ON (a) a FROM s", 1, 0, "", ""),
    ("SELECT x FROM s AS t (a, b)", 1, 23, "the columns of s have no order", "FROM (SELECT x AS a"),
    ("SELECT a INTO t FROM s", 1, 0, "", ""),
    (
        "WITH q AS (SELECT a FROM s), q AS (SELECT b FROM s) SELECT a FROM q",
        1, 0, "WITH defines q twice", "",
    ),
    ("WITH q AS (SELECT uper(b) FROM s) SELECT a FROM s", 1, 19, "unknown function uper", ""),
    ("SELECT a FROM (s)", 1, 16, "FROM does not support a join", "Remove the parentheses"),
    ("SELECT s.a FROM s JOIN t ON s.a = t.a JOIN u USING (a)", 1, 53, "may be a column of several", ""),
    ("SELECT a FROM s NATURAL JOIN t ON s.a = t.a", 1, 30, "takes no ON", "a NATURAL JOIN b"),
    ("SELECT a FROM s NATURAL CROSS JOIN t", 1, 36, "takes no ON and no CROSS", "a NATURAL JOIN b"),
    ("CREATE JOB j EVERY '1 s' AS SELECT a FROM s NATURAL JOIN t", 1, 58, "NATURAL JOIN needs", "USING (x)"),
    ("SELECT a FROM s.t.u", 1, 15, "a name of three parts is not supported", "FROM namespace.job"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns", "streams"),
    [
        ("WITH q AS (SELECT a FROM s) SELECT a FROM q", ("a",), ["s"]),
        ("WITH q AS (SELECT a FROM s), r AS (SELECT a FROM q) SELECT r.a FROM r", ("a",), ["s"]),
        ("WITH s AS (SELECT a FROM t) SELECT a FROM s", ("a",), ["t"]),
        ("SELECT s.a FROM s JOIN t USING (a)", ("a",), ["s", "t"]),
        ("SELECT s.a, t.b FROM s JOIN t", ("a", "b"), ["s", "t"]),  # as Spark: of all pairs
        ("SELECT s.a, t.b FROM s CROSS JOIN t", ("a", "b"), ["s", "t"]),
        ("(SELECT a FROM s) UNION ALL (SELECT b FROM t) ORDER BY a LIMIT 3", ("a",), ["s", "t"]),
        ("SELECT a, (SELECT max(b) FROM t) AS m FROM s", ("a", "m"), ["s", "t"]),
        ("WITH x AS (SELECT 1) SELECT a FROM s", ("a",), ["s"]),
        ("SELECT 1 AS one", ("one",), []),
        ("SELECT a FROM s UNION ALL SELECT 1", ("a",), ["s"]),
    ],
)
def test_inputs(text: str, columns: tuple[str, ...], streams: list[str]) -> None:
    statement = parse(text)
    assert (statement.columns, sorted(statement.streams)) == (columns, streams)


def test_a_statement_without_from_has_no_inputs() -> None:
    statement = parse("SELECT 1 AS one UNION ALL SELECT 2")
    assert (statement.streams, statement.inputs, statement.over_records) == ((), (), ())
    assert [each.stream for each in parse("SELECT a FROM s").over_records] == ["s"]

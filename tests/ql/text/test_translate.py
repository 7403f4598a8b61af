"""Expressions of the SQL parser in ours: forms of calls, paths, places of errors."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (
        "SELECT $request_time FROM s",
        1, 8, "the column `$request_time` does not exist", "write request_time",
    ),
    ("SELECT x.* FROM s", 1, 10, "on the stream only", "name the fields"),
    ("SELECT upper(a, b) FROM s", 1, 8, "does not take 2 arguments", "upper(x)"),
    ("SELECT upper(*) FROM s", 1, 14, "* needs the columns of s", "Name the fields"),
    ("SELECT a FROM s WHERE ts > DATE '2020-02-30'", 1, 33, "'2020-02-30' is not a DATE", "2015-05-17"),
    ("SELECT row_number() FROM s", 1, 8, "needs OVER", "OVER (PARTITION BY"),
    (
        "SELECT upper(a) FILTER (WHERE b) FROM s",
        1, 8, "FILTER belongs to an aggregate", "sum(x) FILTER",
    ),
    ("SELECT CAST(a AS DECIMAL(50, 2)) FROM s", 1, 13, "DECIMAL", "DOUBLE"),
    ("SELECT extract(epoch FROM a) FROM s", 1, 0, "EXTRACT does not know", "unix_seconds(ts)"),
    ("SELECT count(x ORDER BY y) FROM s", 1, 0, "", ""),
    ("SELECT CAST(x AS TIMESTAMP FORMAT 'yyyy') FROM s", 1, 0, "", ""),
    ("SELECT a AS (x, y) FROM s", 1, 0, "", ""),
    ("SELECT a COLLATE UTF8_LCASE FROM s", 1, 0, "", ""),
    (
        "SELECT a LIKE ANY (SELECT b FROM t) FROM s",
        1, 8, "LIKE takes patterns, and no query", "LIKE ANY",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("substring(a FROM 2 FOR 3)", ("substring(a, 2, 3)",)),
        ("overlay(a PLACING 'x' FROM 2)", ("overlay(a, x, 2)",)),
        ("a.b['c']", ("c",)),
        ("a IS DISTINCT FROM b", ("(NOT (a <=> b))",)),
        ("a NOT BETWEEN 1 AND 2", ("(NOT ((a >= 1) AND (a <= 2)))",)),
        ("extract(year FROM ts)", ("year(ts)",)),
        ("a::INT", ("CAST(a AS INT)",)),
        ("CASE a WHEN 1 THEN 2 END", ("CASE WHEN (a = 1) THEN 2 ELSE NULL END",)),
        ("a || b", ("concat(a, b)",)),
        ("a <> 1", ("(a <> 1)",)),
    ],
)  # fmt: skip
def test_a_form_is_read(text: str, columns: tuple[str, ...]) -> None:
    assert parse(f"SELECT {text} FROM s").columns == columns

"""Names of one SELECT: inputs, their columns, and names that more than one input may have."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a FROM s, t", 1, 8, "a column of several inputs", "Write s.a or t.a"),
    ("SELECT a FROM (SELECT b FROM s)", 1, 8, "no column a", "There are b"),
    ("SELECT t.a FROM (SELECT b FROM s) t", 1, 10, "t has no column a", "There are b"),
    ("SELECT a FROM s JOIN t ON s.a = t.a", 1, 8, "a column of several inputs", "Write s.a or t.a"),
    ("SELECT s.a FROM s JOIN s ON s.a = s.b", 1, 24, "two inputs are called s", "AS other"),
    ("SELECT ab FROM (SELECT abc, x FROM s) q", 1, 8, "there is no column ab", "Did you mean abc?"),
    ("SELECT zz FROM (SELECT abc, x FROM s) q", 1, 8, "there is no column zz", "There are abc, x."),
    ("SELECT t.b FROM (SELECT a FROM s) t JOIN (SELECT b FROM s) u ON t.a = u.b", 1, 10, "", "u.b."),
    ("SELECT a FROM (SELECT a FROM s) JOIN t ON a = t.a", 1, 0, "several inputs", "write q.a or t.a."),
    ("SELECT a AS b FROM s JOIN t ON s.a = t.a GROUP BY b", 1, 0, "several inputs", "Write s.a or t.a."),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM (SELECT a, b FROM s) q", ("a", "b")),
        ("SELECT q.*, s.b AS c FROM (SELECT a FROM s) q JOIN s ON s.a = q.a", ("a", "c")),
        ("SELECT * FROM (SELECT a FROM s) q SEMI JOIN (SELECT b FROM s) r ON q.a = r.b", ("a",)),
        ("SELECT A FROM (SELECT a FROM s) q", ("a",)),  # spelt as it is called
        ("SELECT Q.a FROM (SELECT a FROM s) q", ("a",)),
        ("SELECT s.a.b FROM s JOIN t ON s.a.b = t.b", ("b",)),
        ("SELECT b AS a FROM (SELECT a, b FROM s) q ORDER BY a", ("a",)),
    ],
)
def test_columns_are_found(text: str, columns: tuple[str, ...]) -> None:
    assert parse(text).columns == columns


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("SELECT s.a, t.b FROM s JOIN t ON s.c = t.d", [("a", "c"), ("b", "d")]),
        ("SELECT x.a FROM s x JOIN s y ON x.c = y.d", [("a", "c"), ("d",)]),
        ("SELECT s.a.b FROM s JOIN t ON s.a.b = t.b", [("a.b",), ("b",)]),
        ("SELECT s.a FROM s JOIN (SELECT b FROM t) q ON s.a = q.b", [("a",), ("b",)]),
    ],
)
def test_each_input_is_read_for_its_own_fields(text: str, fields: list[tuple[str, ...]]) -> None:
    assert [part.fields for part in parse(text).parts] == fields

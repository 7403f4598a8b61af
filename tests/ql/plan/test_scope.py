"""Names of one SELECT: inputs, their columns, and names that more than one input may have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.conftest import run
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


DECLARED = {"s": ("a", "k"), "t": ("b", "k", "n")}
"""Columns that formats declare; `n` has fields of its own."""


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("SELECT a, b FROM s JOIN t ON a = b", [("a",), ("b",)]),
        ("SELECT n.x AS x FROM s JOIN t ON s.k = t.k WHERE a > 1", [("a", "k"), ("k", "n.x")]),
        ("SELECT s.a + b AS a, b FROM s JOIN t ON s.k = t.k WHERE a > 1", [("a", "k"), ("b", "k")]),
        ("SELECT b FROM s JOIN t USING (k) WHERE k > 1", [("k",), ("b", "k")]),
        ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE b = a)", [("a",), ("b",)]),
    ],
)
def test_a_name_is_a_column_of_the_only_stream_that_declares_it(
    text: str, fields: list[tuple[str, ...]]
) -> None:
    assert [part.fields for part in parse(text, declared=DECLARED).parts] == fields


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("SELECT a FROM s JOIN t ON s.k = t.k WHERE k > 1", 43, "k may be a column of several inputs"),
        ("SELECT a FROM s JOIN t ON s.k = t.k WHERE ts > 1", 43, "ts may be a column of several inputs"),
        ("SELECT zz FROM s JOIN t ON s.k = t.k", 8, "there is no column zz"),
        ("SELECT a FROM s JOIN u ON s.k = u.k", 8, "a may be a column of several inputs"),
    ],
)
def test_a_name_that_declared_columns_do_not_make_clear_is_refused(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        parse(text, declared=DECLARED)
    assert (refused.value.line, refused.value.column) == (1, column)


S = pa.table({"a": [3, 1, None, 3], "k": [1, 1, 2, 2]})


@pytest.mark.parametrize(
    ("lateral", "plain"),
    [
        ("a + 1 AS b, b * 2 AS c, b + c AS d", "a + 1 AS b, (a + 1) * 2 AS c, a + 1 + (a + 1) * 2 AS d"),
        ("a + 1 AS `B`, b AS c", "a + 1 AS B, a + 1 AS c"),
        ("k AS a, a AS b", "k AS a, a AS b"),  # a column goes before an earlier item
        ("row_number() OVER (ORDER BY a, k) AS n, n * 2 AS m",
         "row_number() OVER (ORDER BY a, k) AS n, row_number() OVER (ORDER BY a, k) * 2 AS m"),
        ("(SELECT max(a) FROM s) AS m, m - a AS x",
         "(SELECT max(a) FROM s) AS m, (SELECT max(a) FROM s) - a AS x"),
    ],
)  # fmt: skip
def test_a_select_item_reads_an_earlier_one(lateral: str, plain: str) -> None:
    found, wanted = (
        run(f"SELECT {items} FROM (SELECT a, k FROM s) q ORDER BY 1, 2", S) for items in (lateral, plain)
    )
    assert {at: table.to_pylist() for at, table in found.items()} == {
        at: table.to_pylist() for at, table in wanted.items()
    }


def test_an_item_over_aggregates_reads_an_earlier_one() -> None:
    items = "k, sum(a) AS x, x + count(*) AS y"
    text = f"SELECT {items} FROM (SELECT a, k FROM s) q GROUP BY k HAVING y > 0 ORDER BY y"
    (found,) = run(text, S).values()
    assert found.to_pylist() == [{"k": 2, "x": 3, "y": 5}, {"k": 1, "x": 4, "y": 6}]


@pytest.mark.parametrize(
    ("items", "column", "message"),
    [
        ("b + 1 AS c, a AS b", 8, "b is an alias of this query"),  # a later item
        ("a AS b, `b` + 1 AS c", 16, "there is no column b"),
        ("a AS b, sum(b) AS c", 20, "b is an alias of this query"),
        ("a AS b, max(a) FILTER (WHERE b > 1) AS c", 37, "b is an alias of this query"),
    ],
)
def test_only_a_later_item_outside_of_aggregates_reads_an_alias(
    items: str, column: int, message: str
) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        parse(f"SELECT {items} FROM (SELECT a FROM s) q")
    assert refused.value.column == column


def test_an_alias_is_no_name_where_a_record_may_have_a_field_of_it() -> None:
    text = "SELECT a + 1 AS b, b * 2 AS c FROM s"
    with pytest.raises(QueryError, match="b is an alias of this query"):
        parse(text)
    assert parse(text, declared={"s": ("a",)}).fields == ("a",)
    assert parse(text, declared={"s": ("a", "b")}).fields == ("a", "b")


def test_items_that_read_each_other_are_limited() -> None:
    doubled = ", ".join(f"x{at} + x{at} AS x{at + 1}" for at in range(40))
    longer = ", ".join(f"x{at} + 1 AS x{at + 1}" for at in range(40))
    for items in (doubled, longer):
        with pytest.raises(QueryError, match="too many select items are put into each other"):
            parse(f"SELECT a AS x0, {items} FROM (SELECT a FROM s) q")

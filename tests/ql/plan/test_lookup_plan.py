"""Lookup tables are joined where records are read: by equations with fields of one stream."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from elfmesh.ql.plan.render import full_text
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT s.a FROM lookup.t t JOIN s ON s.a = t.a", 1, 24, "come after JOIN", "FROM stream"),
    ("SELECT s.a FROM s RIGHT JOIN lookup.t t ON s.a = t.a", 1, 37, "RIGHT JOIN with", "LEFT JOIN."),
    ("SELECT s.a FROM s JOIN lookup.t t ON s.a > t.a", 1, 31, "by equations", "ON stream.field = "),
    ("SELECT s.a FROM s JOIN lookup.t t ON t.a = 1", 1, 31, "by equations", "ON stream.field = "),
    ("SELECT s.a FROM s JOIN lookup.t t ON t.a = t.b", 1, 31, "by equations", "ON stream.field = "),
    (
        "SELECT s.a FROM s JOIN u ON s.a = u.a JOIN lookup.t t ON s.a = t.a AND u.b = t.b",
        1, 51, "joined to one stream", "in a subquery",
    ),
    ("SELECT s.a FROM (SELECT a FROM s) s JOIN lookup.t t ON s.a = t.a", 1, 49, "one stream", "subquery"),
    (
        "SELECT s.a FROM u LEFT JOIN s ON s.a = u.a JOIN lookup.t t ON s.a = t.a",
        1, 56, "optional side of an outer join", "LEFT JOIN lookup",
    ),
    (
        "SELECT s.a FROM s RIGHT JOIN u ON s.a = u.a JOIN lookup.t t ON s.a = t.a",
        1, 57, "optional side of an outer join", "LEFT JOIN lookup",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        (
            "SELECT s.a, t.c FROM s JOIN lookup.t t ON upper(s.a) = t.a AND t.b = s.b WHERE t.d = 1",
            [("s", "t", True, ("a", "b", "c", "d"), [("upper(a)", "a"), ("b", "b")])],
        ),
        (
            "SELECT s.a, t.c FROM u LEFT JOIN s ON s.a = u.a LEFT JOIN lookup.t t ON s.a = t.a",
            [("s", "t", False, ("a", "c"), [("a", "a")])],
        ),
        (
            "SELECT x.c, y.c AS d FROM s JOIN lookup.t x ON s.a = x.a LEFT JOIN lookup.t y ON s.b = y.a",
            [("s", "x", True, ("a", "c"), [("a", "a")]), ("s", "y", False, ("a", "c"), [("b", "a")])],
        ),
    ],
)
def test_a_table_belongs_to_the_stream_whose_fields_its_keys_are(
    text: str, joins: list[tuple[object, ...]]
) -> None:
    statement = parse(text)
    assert [
        (part.stream, join.alias, join.inner, join.columns, [(full_text(e), c) for e, c in join.keys])
        for part in statement.parts or (statement,)
        for join in part.lookups
    ] == joins

"""Texts become statements: how many there are, and what a whole statement must have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql import declare, expand, parse, parse_many
from elfmesh.ql.text.parsing import parse_each
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("", 1, 1, "no query", "SELECT"),
    ("   -- only a comment\n", 1, 1, "no query", "SELECT"),
    ("SELECT a FROM s; SELECT b FROM s", 1, 18, "second statement", "one statement"),
    ("SELECT a FROM LATEST shop.top", 1, 1, "only be joined to a", "JOIN LATEST namespace.job"),
    ("SELECT a FROM SAME shop.top", 1, 1, "only be joined to a", "JOIN LATEST namespace.job"),
    ("SELECT s.a FROM s JOIN SAME b.c x ON s.a = x.a", 1, 1, "SAME needs intervals", "TUMBLE"),
    (
        "SELECT s.a FROM s RIGHT JOIN LATEST b.c x ON s.a = x.a",
        1, 1, "only be joined to a", "JOIN LATEST",
    ),
    ("SELECT a FROM s UNION ALL SELECT a FROM LATEST b.c", 1, 0, "only be joined to a", "JOIN LATEST"),
    (
        "CREATE JOB j EVERY '5 s' AS SELECT * FROM s JOIN t ON s.a = t.a",
        1, 36, "cannot SELECT *", "Name the",
    ),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "a job needs an interval", "EVERY '30 s'"),
    ("CREATE JOB j AS SELECT count(*) FROM s", 1, 1, "a job needs an interval", "TUMBLE(ts"),
    (
        "CREATE JOB j\nEVERY '5 s' AS SELECT count(*) FROM s\nGROUP BY TUMBLE(ts, '30 s')",
        2, 1, "differs from the window", "Leave EVERY out",
    ),
    ("CREATE JOB j EVERY '5 s' AS SELECT * FROM s", 1, 36, "cannot SELECT *", "Name the fields"),
    (
        "SELECT s.a FROM s JOIN u ON s.a = u.b GROUP BY SESSION('5 s'), s.a",
        1, 1, "one stream", "TUMBLE",
    ),
    (
        "CREATE JOB j EVERY '5 s' KEEP PARTIALS AS SELECT s.a FROM s JOIN t ON s.a = t.a",
        1, 1, "KEEP", "Leave",
    ),
)  # fmt: skip


def test_what_is_wrong_with_one_statement_does_not_hide_the_others() -> None:
    found = list(parse_each("SELECT a FROM s;; SELECT b; SELECT c FROM t;"))
    assert [isinstance(each, QueryError) for each in found] == [False, True, False]


def test_a_statement_is_expanded_by_the_columns_of_its_stream() -> None:
    star = parse("SELECT *, a + 1 AS n FROM s")
    assert star.star
    assert expand(star, ["a", "b"]).columns == ("a", "b", "n")
    plain = parse("SELECT a FROM s")
    assert expand(plain, ["a", "b"]) is plain
    with pytest.raises(QueryError, match="two columns are called n"):
        expand(star, ["n"])


def test_columns_that_a_format_declares_change_only_what_they_are_about() -> None:
    plain = parse("SELECT a FROM s")
    assert declare(plain, {}) is plain


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(QueryError):
        parse("SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM s")
    with pytest.raises(QueryError, match="longer than"):
        parse("SELECT a FROM s -- " + "x" * 300_000)


WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT CREATE JOB AS EVERY ON ( ) , . * = 'x' 1 a b s count( "
    "sum( upper( TUMBLE( ts '5 s' INTERVAL SECOND AND OR NOT NULL IS CASE WHEN THEN END IN BETWEEN LIKE ; "
    "-- \n ' ` [ ] :: -> ? @ DISTINCT FILTER CAST( BIGINT window_start"
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS.split(" ")),
        max_size=25,
    ).map(" ".join)
    | st.text(max_size=40)
)
def test_any_text_parses_or_is_a_query_error_with_a_place(text: str) -> None:
    found: QueryError | None = None
    try:
        parse(text)
    except QueryError as error:
        found = error
    assert found is None or (found.line >= 1 and found.column >= 1)


def test_joins_that_wait_for_their_conditions_are_counted_before_they_are_parsed() -> None:
    with pytest.raises(QueryError, match="more than 8 joins follow without ON"):
        parse("SELECT c.x FROM c " + "JOIN SAME " * 60 + "a.b t ON c.x = t.x")


def test_places_in_a_file_count_from_its_first_line() -> None:
    with pytest.raises(QueryError) as caught:
        parse_many("SELECT a FROM s;\n\n-- the second\nSELECT b, uper(c)\nFROM s;\n", source="jobs.elfql")
    assert (caught.value.line, caught.value.column) == (4, 11)
    assert str(caught.value).startswith("jobs.elfql:4:11: unknown function uper")

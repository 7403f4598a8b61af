"""From a SELECT to a plan: what agents compute and reduce, and which names a clause may use."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from tests.ql.conftest import run
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (
        "SELECT session_window, count(*) FROM s GROUP BY SESSION('5 s')",
        1, 8, "not a value", "window_start",
    ),
    ("SELECT a FROM s WHERE window_end > ts GROUP BY SESSION('5 s'), a", 1, 23, "use the", "Use the"),
    ("SELECT window_start, a FROM s", 1, 8, "window_start needs a window", "TUMBLE"),
    ("SELECT window, count(*) FROM s GROUP BY window(ts, '5 s')", 1, 8, "not a value", "window_start"),
    ("SELECT window(ts, '5 s'), count(*) FROM s", 1, 8, "not in GROUP BY", "Add it"),
    (
        "SELECT count(*) FROM s WHERE window_start > 0 GROUP BY TUMBLE(ts, '5 s')",
        1, 30, "WHERE cannot", "",
    ),
    ("SELECT a, count(*) FROM s", 1, 8, "must be in GROUP BY or in an aggregate", "GROUP BY"),
    ("SELECT a, count(*) FROM s GROUP BY b", 1, 8, "must be in GROUP BY or in an aggregate", "min(a)"),
    ("SELECT count(*) FROM s HAVING a > 1", 1, 31, "must be in GROUP BY or in an aggregate", ""),
    (
        "SELECT a, count(*) AS n FROM s GROUP BY a ORDER BY m",
        1, 52, "be in GROUP BY", "columns are a, n.",
    ),
    (
        "SELECT a, count(*) AS hits FROM s GROUP BY a ORDER BY hit",
        1, 55, "must be in GROUP BY", "Did you mean hits?",
    ),
    ("SELECT a AS x, b AS x FROM s", 1, 16, "two columns are called x", "AS other_name"),
    ("SELECT a FROM s GROUP BY 2", 1, 26, "no column 2", "1 column."),
    ("SELECT a FROM s ORDER BY 3", 1, 26, "no column 3", "1 column."),
    ("SELECT count(*) AS n FROM s GROUP BY n", 1, 38, "GROUP BY cannot contain an aggregate", "fields"),
    ("SELECT DISTINCT a FROM s ORDER BY b", 1, 35, "its own columns only", "Select"),
    ("SELECT *, count(*) FROM s", 1, 8, "* cannot be grouped", "count(*)"),
    ("SELECT sum(count(*)) FROM s", 1, 12, "cannot contain an aggregate", ""),
    ("SELECT a FROM s WHERE count(*) > 1", 1, 23, "WHERE cannot contain an aggregate", "HAVING"),
    ("SELECT a FROM s WHERE a = 1 GROUP BY 1, 3", 1, 41, "no column 3", "1 column."),
    ("SELECT *, a FROM s GROUP BY 1", 1, 29, "a column number cannot be combined with *", "the name"),
    ("SELECT TUMBLE(ts, '30 s') FROM s GROUP BY TUMBLE(ts, '30 s')", 1, 8, "not a value", "window_start"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fields", "keys", "aggregates"),
    [
        ("SELECT a, sum(b) FROM s GROUP BY a", ("a", "b"), ("k0",), [("sum", "v0")]),
        ("SELECT a FROM s", ("a",), ("k0",), [("count", None)]),  # rows repeat as often as they come
        ("SELECT DISTINCT a FROM s", ("a",), ("k0",), []),
        ("SELECT sum(a), sum(a) + 1 FROM s", ("a",), (), [("sum", "v0")]),
        ("SELECT 1 FROM s", (), (), [("count", None)]),
        ("SELECT upper(a) AS x, count(*) FROM s GROUP BY x", ("a",), ("k0",), [("count", None)]),
        ("SELECT a, count(*) FROM s GROUP BY 1", ("a",), ("k0",), [("count", None)]),
        ("SELECT count(a) FROM s WHERE b = 1", ("a", "b"), (), [("count", "v0")]),
        ("SELECT first(a) FROM s GROUP BY TUMBLE(t, '30 s')", ("a", "t"), (), [("first", ("v0", "v1"))]),
        (
            "SELECT a FROM s GROUP BY SESSION(ts, '30 s'), a",
            ("a", "ts"), ("k0",), [("min", "v0"), ("max", "v0")],
        ),
    ],
)  # fmt: skip
def test_what_agents_read_and_reduce(
    text: str, fields: tuple[str, ...], keys: tuple[str, ...], aggregates: list[object]
) -> None:
    statement = parse(text)
    (table,) = statement.tables
    assert statement.fields == fields
    assert (table.keys, list(table.aggregates.values())) == (keys, aggregates)


def test_distinct_values_have_a_table_of_their_own() -> None:
    main, distinct = parse("SELECT a, count(DISTINCT b), max(c) FROM s GROUP BY a").tables
    assert (main.keys, dict(main.aggregates)) == (("k0",), {"a0": ("max", "v0")})
    assert (distinct.name, distinct.keys, dict(distinct.aggregates)) == ("d0", ("k0", "x"), {})


@pytest.mark.parametrize(("order", "expected"), [("1 DESC", [3, 2, 1]), ("2, 1", [3, 1, 2])])
def test_a_number_in_order_by_means_a_column_of_the_star(order: str, expected: list[int]) -> None:
    (table,) = run(f"SELECT * FROM s ORDER BY {order}", {"a": [1, 2, 3], "b": [5, 5, 4]}).values()
    assert table.column("a").to_pylist() == expected
    with pytest.raises(QueryError, match="there is no column 3"):
        run("SELECT * FROM s ORDER BY 3", {"a": [1], "b": [2]})

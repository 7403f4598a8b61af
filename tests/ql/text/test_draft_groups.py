"""GROUP BY with ROLLUP, CUBE and GROUPING SETS: the groupings that it means."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT count(*) FROM s GROUP BY CUBE(a, b, c, d, e, f, g)", 1, 0, "64 groupings", "several jobs"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("group", "sets"),
    [
        ("ROLLUP(a, b)", [("a", "b"), ("a",), ()]),
        ("CUBE(a, b)", [("a", "b"), ("a",), ("b",), ()]),
        ("a, ROLLUP(b)", [("a", "b"), ("a",)]),
        ("GROUPING SETS ((a, b), a, ())", [("a", "b"), ("a",), ()]),
        ("GROUPING SETS (a, ROLLUP(b))", [("a",), ("b",), ()]),
        ("a, b GROUPING SETS ((a), (b))", [("a",), ("b",)]),
        ("a, b WITH ROLLUP", [("a", "b"), ("a",), ()]),
        ("ROLLUP((a, b))", [("a", "b"), ()]),
    ],
)
def test_each_grouping_is_a_part(group: str, sets: list[tuple[str, ...]]) -> None:
    statement = parse(f"SELECT count(*) AS n FROM s GROUP BY {group}")
    assert [part.fields for part in statement.parts] == sets


@pytest.mark.parametrize(
    ("items", "keys"),
    [("a, count(*)", ["a"]), ("upper(a), b, max(c)", ["upper(a)", "b"]), ("count(*)", [])],
)
def test_group_by_all_is_what_holds_no_aggregate(items: str, keys: list[str]) -> None:
    from_all = parse(f"SELECT {items} FROM s GROUP BY ALL").plan.keys
    given = parse(f"SELECT {items} FROM s GROUP BY {', '.join(keys)}").plan.keys if keys else ()
    assert from_all == given

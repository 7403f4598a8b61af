"""Aliases against the fields of the stream: which one a name means, and where it is refused."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from elfmesh.ql.plan.render import full_text
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a + 1 AS b FROM s WHERE b > 3", 1, 32, "b is an alias", "Repeat the expression"),
    (
        "SELECT path AS a, lower(path) AS path, count(*) FROM s GROUP BY path HAVING path = 'x'",
        1, 77, "both", "AS other_name",
    ),
    ("SELECT rank() OVER (ORDER BY a) AS n FROM s WHERE n = 1", 1, 51, "alias", "backquotes"),
    ("SELECT explode(a) AS e FROM s WHERE e = 1", 1, 37, "alias", "backquotes"),
    (
        "SELECT grouping(a) AS g, a AS b FROM s WHERE g = 1 GROUP BY ROLLUP(a)",
        1, 46, "alias", "backquotes",
    ),
    ("SELECT sum(a) AS x FROM s HAVING sum(x) > 1", 1, 38, "x is an alias of this query", "Repeat"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT upper(a) AS x, count(*) FROM s GROUP BY x", ["upper(a)"]),
        ("SELECT upper(x) AS x, count(*) FROM s GROUP BY x", ["x"]),  # the query reads the field
        ("SELECT 1 AS x, count(*) FROM s GROUP BY `x`", ["x"]),
        ("SELECT upper(a) AS x, count(*) FROM s WHERE x.y = 1 GROUP BY x", ["upper(a)"]),
        ("SELECT a AS X, count(*) FROM s GROUP BY x", ["a"]),
    ],
)
def test_group_by_takes_the_field_if_the_query_reads_it_and_else_the_alias(
    text: str, keys: list[str]
) -> None:
    assert [full_text(key) for key in parse(text).plan.keys] == keys


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("SELECT sum(a) AS x FROM s ORDER BY x", "a0"),
        ("SELECT sum(a) AS x FROM s ORDER BY abs(x)", "abs(a0)"),
        ("SELECT sum(a) AS a FROM s ORDER BY max(a)", "a1"),  # inside an aggregate it is the field
    ],
)
def test_order_by_takes_the_alias(text: str, order: str) -> None:
    (item,) = parse(text).plan.order
    assert (
        str(getattr(item.expr, "name", ""))
        + "".join(f"({arg.name})" for arg in getattr(item.expr, "args", ()) if hasattr(arg, "name"))
        == order
    )

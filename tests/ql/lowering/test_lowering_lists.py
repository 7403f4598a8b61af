"""explode(list) in a select list: a row per element, and what may stand beside it."""

from __future__ import annotations

import pytest

from tests.ql.conftest import run
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT explode(a), explode(b) FROM s", 1, 20, "one explode", "FROM (SELECT explode"),
    ("SELECT explode(a) FROM s GROUP BY b", 1, 8, "without GROUP BY", "FROM (SELECT explode"),
    ("SELECT explode(a), sum(b) FROM s", 1, 20, "plain expressions", "FROM (SELECT explode"),
    ("SELECT explode(a) AS e FROM s ORDER BY b", 1, 40, "columns of the select list", "FROM (SELECT"),
    ("SELECT a, explode(b) AS e FROM s ORDER BY 3", 1, 43, "no column 3", "2 columns"),
)  # fmt: skip


ROWS = {"a": [1, 2, 3], "b": ["x,y", "", None]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, explode(split(b, ',')) AS e FROM s ORDER BY e", [(2, ""), (1, "x"), (1, "y")]),
        ("explode(split(b, ',')) AS e, a FROM s ORDER BY e DESC LIMIT 1", [("y", 1)]),
        (
            "a, explode_outer(split(b, ',')) AS e FROM s WHERE a <> 2 ORDER BY 1 DESC, 2",
            [
                (3, None),
                (1, "x"),
                (1, "y"),
            ],
        ),
        ("DISTINCT explode(array(1, 1)) AS e FROM s", [(1,)]),
        ("explode(array(a, a + 1)) AS e, a + 1 FROM s ORDER BY a + 1, E OFFSET 4", [(3, 4), (4, 4)]),
    ],
)
def test_there_is_a_row_for_each_element(text: str, expected: list[tuple[object, ...]]) -> None:
    (table,) = run(f"SELECT {text}", ROWS).values()
    assert [tuple(row.values()) for row in table.to_pylist()] == expected

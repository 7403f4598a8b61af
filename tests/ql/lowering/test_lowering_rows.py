"""GROUPING SETS and functions OVER rows: split into a SELECT below and one above."""

from __future__ import annotations

import pytest

from tests.ql.conftest import run
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a, grouping_id(b) FROM s GROUP BY ROLLUP(a, b)", 1, 11, "takes all columns", "in their"),
    ("SELECT a, grouping(c) FROM s GROUP BY ROLLUP(a, b)", 1, 11, "takes a column of GROUP BY", "ROLLUP"),
    ("SELECT a, rank() OVER (ORDER BY a) FROM s GROUP BY 3", 1, 52, "no column 3", "2 columns"),
    ("SELECT a, rank() OVER (ORDER BY a) FROM s GROUP BY 0", 1, 52, "no column 0", "2 columns"),
)  # fmt: skip


ROWS = {"a": ["x", "x", "y"], "b": [1, 2, 3]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT a, b, sum(b) AS n FROM s GROUP BY ROLLUP(a, b) ORDER BY a NULLS LAST, b NULLS LAST",
            [
                ("x", 1, 1), ("x", 2, 2), ("x", None, 3), ("y", 3, 3), ("y", None, 3), (None, None, 6),
            ],
        ),
        (
            "SELECT grouping(a) AS g, grouping_id() AS i, sum(b) AS n FROM s GROUP BY CUBE(a, b)"
            " HAVING grouping(b) = 1 ORDER BY 1, 3",
            [(0, 1, 3), (0, 1, 3), (1, 3, 6)],
        ),
        ("SELECT abs(b) AS c, count(*) FROM s GROUP BY GROUPING SETS ((b), ()) ORDER BY 1", [
            (None, 3), (1, 1), (2, 1), (3, 1),
        ]),
        ("SELECT b, sum(b) OVER (PARTITION BY a) AS n FROM s ORDER BY b", [(1, 3), (2, 3), (3, 3)]),
        ("SELECT b, sum(b) OVER (ORDER BY b) AS n FROM s ORDER BY b", [(1, 1), (2, 3), (3, 6)]),
        ("SELECT b, count(b) OVER (ORDER BY b ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS n,"
         " sum(b) OVER (ORDER BY b ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS m FROM s ORDER BY b",
         [(1, 1, 3), (2, 0, None), (3, 0, None)]),
        ("SELECT a, rank() OVER (ORDER BY sum(b) DESC) AS r FROM s GROUP BY a ORDER BY a", [
            ("x", 1), ("y", 1),
        ]),
        ("SELECT b FROM s QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) = 1 ORDER BY 1", [
            (2,), (3,),
        ]),
        ("SELECT b, count(*) OVER () AS n FROM s ORDER BY b LIMIT 1 OFFSET 1", [(2, 3)]),
    ],
)  # fmt: skip
def test_rows(text: str, expected: list[tuple[object, ...]]) -> None:
    (table,) = run(text, ROWS).values()
    assert [tuple(row.values()) for row in table.to_pylist()] == expected

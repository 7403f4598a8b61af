"""Names of output columns, spelt as Spark spells them."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("a.b", "b"),
        ("upper(a.b)", "upper(a.b)"),
        ("count(*)", "count(1)"),
        ("count(DISTINCT a, b)", "count(DISTINCT a, b)"),
        ("sum(a) FILTER (WHERE b > 1)", "sum(a) FILTER (WHERE (b > 1))"),
        ("-(a + 1)", "(- (a + 1))"),
        ("NOT b", "(NOT b)"),
        ("a AND b OR c", "((a AND b) OR c)"),
        ("a div b", "(a div b)"),
        ("a BETWEEN 1 AND 2", "((a >= 1) AND (a <= 2))"),
        ("a IN (1, 'x')", "(a IN (1, x))"),
        ("a IS NULL", "(a IS NULL)"),
        ("a IS NOT TRUE", "(NOT (a IS TRUE))"),
        ("a LIKE 'x%'", "a LIKE x%"),
        ("CAST(a AS INT)", "CAST(a AS INT)"),
        ("TRY_CAST(a AS INT)", "TRY_CAST(a AS INT)"),
        ("a[0]", "a[0]"),
        ("~a", "~a"),
        ("a + INTERVAL '90' SECOND", "(a + INTERVAL '90 s')"),
        ("a + INTERVAL '2' MONTH", "(a + INTERVAL '2' MONTH)"),
        ("split(a, ',')[1]", "split(a, ,)[1]"),
        ("CASE WHEN a THEN 1 WHEN b THEN 2.5 END", "CASE WHEN a THEN 1 WHEN b THEN 2.5 ELSE NULL END"),
        ("true", "true"),
        ("NULL", "NULL"),
        ("1e7", "1.0E7"),
        ("explode(a)", "col"),
        ("(SELECT max(a) FROM s)", "scalarsubquery()"),
        ("rank() OVER (PARTITION BY a ORDER BY b)", "rank() OVER (PARTITION BY a ORDER BY b)"),
        ("sum(a) OVER ()", "sum(a) OVER ()"),
        (
            "sum(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)",
            "sum(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)",
        ),
        (
            "sum(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW)",
            "sum(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL '5 s' PRECEDING AND CURRENT ROW)",
        ),
        (
            "sum(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
            "sum(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
        ),
    ],
)
def test_a_column_without_as(expression: str, name: str) -> None:
    assert parse(f"SELECT {expression} FROM s").columns == (name,)


def test_bounds_of_the_window() -> None:
    text = "SELECT window_start, TUMBLE(ts, '5 s').end, a FROM s GROUP BY TUMBLE(ts, '5 s'), a"
    assert parse(text).columns == ("window_start", "window_end", "a")

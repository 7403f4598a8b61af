"""Calls of aggregates: arguments, DISTINCT, IGNORE NULLS, WITHIN GROUP."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT sum(a, b) FROM s", 1, 8, "does not take 2 arguments", "sum(x)"),
    ("SELECT sum(*) FROM s", 1, 8, "is not valid", "sum(x)"),
    ("SELECT count() FROM s", 1, 8, "does not take 0 arguments", "count(*)"),
    ("SELECT stddev(DISTINCT a) FROM s", 1, 8, "stddev(DISTINCT) is not supported", "stddev(x)"),
    ("SELECT first(DISTINCT a) FROM s", 1, 8, "first(DISTINCT) is not supported", "first(x"),
    ("SELECT sum(a) IGNORE NULLS FROM s", 1, 8, "IGNORE NULLS belongs to", "always ignore"),
    ("SELECT percentile_cont(0.5) FROM s", 1, 8, "needs WITHIN GROUP", "WITHIN GROUP (ORDER BY x)"),
    ("SELECT sum(a) WITHIN GROUP (ORDER BY a) FROM s", 1, 8, "does not support this ORDER BY", "listagg"),
    ("SELECT max(rank() OVER (ORDER BY a)) AS m FROM s", 1, 8, "a window function", "in a subquery"),
    ("SELECT max(x) IGNORE NULLS FROM s", 1, 0, "", ""),
    ("SELECT count(*, a) FROM s", 1, 8, "count takes * alone", "count(DISTINCT x)"),
    ("SELECT count(s.*) FROM s", 1, 8, "count(t.*) is not supported", "count(a, b) counts records"),
    ("SELECT first(a, true) IGNORE NULLS FROM s", 1, 8, "IGNORE NULLS belongs to first and last", ""),
    ("SELECT upper(a) IGNORE NULLS FROM s", 1, 8, "belongs to first or last", "first(x) IGNORE NULLS"),
    (
        "SELECT listagg(DISTINCT x) WITHIN GROUP (ORDER BY y) FROM s",
        1, 8, "ordered by x", "leave DISTINCT",
    ),
    ("SELECT listagg(x) WITHIN GROUP (ORDER BY sum(y)) FROM s", 1, 8, "an aggregate", "by a column"),
    ("SELECT listagg(x) WITHIN GROUP (ORDER BY ALL) FROM s", 1, 8, "a whole query", "ORDER BY a, b"),
    ("SELECT sum(x ORDER BY y) FROM s", 1, 8, "sum does not support this ORDER BY", "array_agg(x ORDER"),
    ("SELECT count(* ORDER BY y) FROM s", 1, 8, "count does not support this ORDER BY", "array_agg"),
    ("SELECT array_agg(x ORDER BY y LIMIT 3) FROM s", 1, 18, "has no LIMIT", "array_agg(x, 3 ORDER BY y)"),
    ("SELECT array_agg(DISTINCT x ORDER BY y) FROM s", 1, 8, "only be ordered by x", "leave DISTINCT"),
    ("SELECT collect_set(x ORDER BY y) FROM s", 1, 8, "collect_set(x) can only be ordered by x", ""),
    ("SELECT array_agg(x ORDER BY count(y)) FROM s", 1, 8, "cannot contain an aggregate", "by a column"),
    ("SELECT array_agg(x ORDER BY ALL) FROM s", 1, 8, "a whole query", "ORDER BY a, b"),
    ("SELECT array_agg(x ORDER BY y) WITHIN GROUP (ORDER BY x) FROM s", 1, 8, "two ORDER BY", "one of them"),
    ("SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY x, y) FROM s", 1, 8, "one ORDER BY item", ""),
    ("SELECT approx_percentile(0.9) FROM s", 1, 8, "does not take 1 argument", "approx_percentile(x, 0.99"),
    ("SELECT approx_percentile(0.9, 0.01) WITHIN GROUP (ORDER BY x) FROM s", 1, 31, "a whole number", ""),
    ("SELECT mode() FROM s", 1, 8, "does not take 0 arguments", "mode(x)"),
    ("SELECT mode(y) WITHIN GROUP (ORDER BY x) FROM s", 1, 8, "does not take 1 argument", "mode(x)"),
    ("SELECT mode() WITHIN GROUP (ORDER BY x DESC) FROM s", 1, 8, "in ascending order", "DESC out"),
    ("SELECT approx_percentile(0.1) WITHIN GROUP (ORDER BY x DESC) FROM s", 1, 8, "ascending", "1 minus"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("count(*)", ("count(1)",)),
        ("mean(a)", ("avg(a)",)),
        ("first(a) IGNORE NULLS", ("first(a, true)",)),
        ("last(a) RESPECT NULLS", ("last(a)",)),
        ("any_value(a) IGNORE NULLS", ("any_value(a)",)),
        ("percentile_cont(0.9) WITHIN GROUP (ORDER BY x)", ("percentile_cont(x, 0.9)",)),
        ("percentile_disc(0.9) WITHIN GROUP (ORDER BY x DESC)", ("percentile_disc(x, 0.9, true)",)),
        ("approx_percentile(0.9) WITHIN GROUP (ORDER BY x)", ("approx_percentile(x, 0.9)",)),
        ("percentile_approx(0.9, 100) WITHIN GROUP (ORDER BY x)", ("percentile_approx(x, 0.9, 100)",)),
        ("mode() WITHIN GROUP (ORDER BY x)", ("mode(x)",)),
        ("count(DISTINCT a, b)", ("count(DISTINCT a, b)",)),
        ("array_agg(a ORDER BY b NULLS LAST, c DESC)", ("array_agg(a ORDER BY b NULLS LAST, c DESC)",)),
        ("array_agg(DISTINCT a) WITHIN GROUP (ORDER BY a)", ("array_agg(DISTINCT a ORDER BY a)",)),
    ],
)  # fmt: skip
def test_a_call_is_read(text: str, columns: tuple[str, ...]) -> None:
    assert parse(f"SELECT {text} FROM s").columns == columns

"""OVER: functions over rows, their arguments and frames."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT sum(a) OVER (ROWS 2 PRECEDING) FROM s", 1, 8, "ROWS without ORDER BY", "ROWS BETWEEN"),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN c PRECEDING AND CURRENT ROW) FROM s",
        1, 0, "constant", "",
    ),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1.5 PRECEDING AND 1 FOLLOWING) FROM s",
        1, 8, "whole", "2",
    ),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM s",
        1, 8, "end of", "",
    ),
    ("SELECT sum(a) OVER (ORDER BY b, c RANGE 2 PRECEDING) FROM s", 1, 8, "one ORDER BY item", "ROWS"),
    ("SELECT first(a) FILTER (WHERE b) OVER (ORDER BY b) FROM s", 1, 8, "FILTER of first", ""),
    ("SELECT ntile(0) OVER (ORDER BY b) FROM s", 1, 8, "does not take these", "ntile(n)"),
    ("SELECT row_number() OVER (PARTITION BY b) FROM s", 1, 8, "without ORDER BY", "ORDER BY b"),
    ("SELECT upper(a) OVER () FROM s", 1, 8, "OVER can be used only with aggregates", "row_number()"),
    (
        "SELECT lag(a, b) OVER (ORDER BY b) FROM s",
        1, 8, "does not take these", "lag(x[, n[, default]])",
    ),
    (
        "SELECT rank() OVER (ORDER BY b ROWS UNBOUNDED PRECEDING) FROM s",
        1, 8, "does not support a frame", "",
    ),
    (
        "SELECT rank() OVER (ORDER BY ALL) FROM s",
        1, 8, "ORDER BY ALL belongs to a whole query", "ORDER BY a",
    ),
    (
        "SELECT rank(a) OVER (ORDER BY b) FROM s",
        1, 8, "rank does not take these arguments", "Write rank().",
    ),
    ("SELECT rank() IGNORE NULLS OVER (ORDER BY b) FROM s", 1, 8, "rank has no nulls to ignore", "lead."),
    ("SELECT nth_value(a, 0) OVER (ORDER BY b) FROM s", 1, 8, "does not take these", "nth_value(x, n)"),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED FOLLOWING AND 1 FOLLOWING) FROM s",
        1, 8, "a frame cannot start with UNBOUNDED FOLLOWING", "ROWS BETWEEN 2 PRECEDING",
    ),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING) FROM s",
        1, 8, "a frame cannot end with UNBOUNDED PRECEDING", "ROWS BETWEEN 2 PRECEDING",
    ),
    (
        "SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL 5 DAYS PRECEDING AND 2 FOLLOWING) FROM s",
        1, 8, "an INTERVAL at one end and a number at the other", "RANGE BETWEEN INTERVAL",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("lag(a) OVER (ORDER BY b)", ("lag(a, 1, NULL) OVER (ORDER BY b)",)),
        ("lead(a, 2, 0) IGNORE NULLS OVER (ORDER BY b)", ("lead(a, 2, 0, true) OVER (ORDER BY b)",)),
        ("nth_value(a, 2) RESPECT NULLS OVER (ORDER BY b)", ("nth_value(a, 2) OVER (ORDER BY b)",)),
        ("first(a) OVER (ORDER BY b)", ("first(a) OVER (ORDER BY b)",)),
        ("ntile(4) OVER (ORDER BY b DESC)", ("ntile(4) OVER (ORDER BY b)",)),
        ("sum(a) OVER (ORDER BY b ROWS 2 PRECEDING)",
         ("sum(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",)),
        ("sum(a) OVER (ORDER BY b RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING)",
         ("sum(a) OVER (ORDER BY b RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING)",)),
    ],
)  # fmt: skip
def test_a_call_is_read(text: str, columns: tuple[str, ...]) -> None:
    assert parse(f"SELECT {text} FROM s").columns == columns

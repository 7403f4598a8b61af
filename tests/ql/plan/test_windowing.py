"""The one window of a statement, and the time column of each stream that it cuts."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELECT a FROM s GROUP BY SESSION('5 s'), TUMBLE('5 s'), a", 1, 42, "one window", "one job"),
    (
        "SELECT count(*) FROM s GROUP BY TUMBLE(ts, '1 s'), TUMBLE(ts, '2 s')",
        1, 52, "one window", "job",
    ),
    (
        "SELECT a FROM s GROUP BY TUMBLE(ts, '5 s'), a UNION SELECT b FROM s GROUP BY TUMBLE('6 s'), b",
        1, 78, "one window, in all", "one job for each",
    ),
    (
        "SELECT count(*) FROM (SELECT et + INTERVAL 1 SECOND AS t FROM s) GROUP BY TUMBLE(t, '5 s')",
        1, 75, "computed in a subquery", "TUMBLE over a field",
    ),
    ("SELECT count(*) FROM (SELECT b FROM s) q GROUP BY TUMBLE(t, '5 s')", 1, 51, "not selected", ""),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT count(*) FROM s GROUP BY TUMBLE(t, '5 s')", {"s": "t"}),
        ("SELECT TUMBLE(t, '5 s').start AS w, count(*) FROM s GROUP BY 1", {"s": "t"}),
        ("SELECT count(*) FROM s JOIN u ON s.a = u.a GROUP BY TUMBLE(s.t, '5 s')", {"s": "t", "u": "ts"}),
        ("SELECT count(*) FROM s JOIN u ON s.a = u.a GROUP BY TUMBLE(t, '5 s')", {"s": "t", "u": "t"}),
        ("SELECT count(*) FROM (SELECT x AS t FROM s) q GROUP BY TUMBLE(q.t, '5 s')", {"s": "x"}),
        (
            "SELECT count(*) FROM (SELECT x AS t FROM s UNION ALL SELECT y FROM u) GROUP BY TUMBLE(T,'5 s')",
            {"s": "x", "u": "y"},
        ),
        (
            "SELECT count(*) FROM (SELECT window_start AS t FROM s GROUP BY TUMBLE(x, '5 s'))"
            " GROUP BY TUMBLE(t, '5 s')",
            {"s": "x"},
        ),
        ("SELECT s.a FROM s JOIN LATEST n.j AS j ON s.a = j.b GROUP BY TUMBLE(s.t, '5 s'), s.a", {}),
    ],
)
def test_the_time_column_is_that_of_the_stream(text: str, columns: dict[str, str]) -> None:
    statement = parse(text)
    found = {part.stream: part.window.column for part in statement.parts or (statement,) if part.window}
    if not columns:
        assert found["s"] == "t"  # whatever the results of the other job are cut by
    else:
        assert found == columns


def test_without_a_window_in_the_query_the_job_declares_it() -> None:
    window = parse("CREATE JOB n.j EVERY '5 s' AS SELECT count(*) FROM s").window
    assert window is not None
    assert (window.kind, window.column, window.size_us, window.slide_us) == (
        "tumble", "ts", 5_000_000, 5_000_000,
    )  # fmt: skip

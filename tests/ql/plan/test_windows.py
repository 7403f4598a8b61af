"""Lengths of windows and intervals: how TUMBLE, HOP, SESSION and their like are read."""

from __future__ import annotations

import pytest

from elfmesh.ql import parse
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    (
        "SELECT count(*) FROM s GROUP BY TUMBLE(ts)",
        1, 33, "does not take these", "INTERVAL '30' SECOND",
    ),
    (
        "SELECT count(*) FROM s GROUP BY HOP(ts, '30 s')",
        1, 33, "does not take these", "slide, then size",
    ),
    (
        "SELECT count(*) FROM s GROUP BY HOP(ts, '30 s', '10 s')",
        1, 33, "slides by 30 s", "at most the size",
    ),
    ("SELECT count(*) FROM s GROUP BY window(ts, '1 month')", 1, 33, "not a duration", "30 seconds"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, INTERVAL 1 MONTH)", 1, 0, "no fixed length", "SECOND"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, x)", 1, 33, "lengths are constants", "TUMBLE(ts"),
    ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, '0 s')", 1, 33, "greater than zero", "TUMBLE"),
    (
        "SELECT count(*) FROM s GROUP BY SESSION(ts, '5 s', '9 s')",
        1, 33, "does not take", "SESSION(ts, INT",
    ),
    ("SELECT count(*) FROM s GROUP BY SESSION(ts)", 1, 33, "does not take these", "'5' MINUTE"),
    (
        "SELECT count(*) FROM s GROUP BY session_window(ts, v)",
        1, 33, "lengths are constants", "session_w",
    ),
    ("SELECT a + INTERVAL x DAY FROM s", 1, 12, "INTERVAL takes a constant", "INTERVAL '30' SECOND"),
    ("SELECT INTERVAL '1-2' YEAR TO MONTH FROM s", 1, 8, "no length from YEAR TO MONTH", "DAY TO SECOND"),
    ("SELECT a + INTERVAL '1 day -' FROM s", 1, 12, "INTERVAL '1 day -' is not a duration", "SECOND"),
    ("SELECT a + INTERVAL '1 month 2' FROM s", 1, 12, "no fixed length", "SECOND"),
    ("SELECT INTERVAL '-106751991 05' DAY TO HOUR FROM s", 1, 8, "no length from DAY TO HOUR", "SECOND"),
    ("SELECT a + INTERVAL 'soon' FROM s", 1, 12, "is not a duration of fixed length", "SECOND"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("TUMBLE(t, '30 s')", ("tumble", "t", 30, 30)),
        ("TUMBLE(INTERVAL '1' MINUTE)", ("tumble", "ts", 60, 60)),
        ("HOP(t, '10 s', '30 s')", ("hop", "t", 30, 10)),
        ("HOP('30 s', '30 s')", ("tumble", "ts", 30, 30)),
        ("window(t, '30 s', '10 s')", ("hop", "t", 30, 10)),
        ("window(t, 'INTERVAL 30 s')", ("tumble", "t", 30, 30)),
        ("SESSION(t, '5 m')", ("session", "t", 300, 300)),
        ("session_window(t, '5 minutes')", ("session", "t", 300, 300)),
        ("HOP('1 s', '10000 s')", ("hop", "ts", 10_000, 1)),
    ],
)
def test_a_window(call: str, window: tuple[str, str, int, int]) -> None:
    found = parse(f"SELECT a FROM s GROUP BY {call}, a").window
    assert found is not None
    seconds = (found.size_us // 1_000_000, found.slide_us // 1_000_000)
    assert (found.kind, found.column, *seconds) == window


@pytest.mark.parametrize(
    ("interval", "name"),
    [
        ("INTERVAL '2' DAY", "(a + INTERVAL '2 d')"),
        ("INTERVAL 90 SECONDS", "(a + INTERVAL '90 s')"),
        ("INTERVAL '-5' SECOND", "(a + INTERVAL '-5 s')"),
        ("INTERVAL -5 SECOND", "(a + INTERVAL '-5 s')"),
        ("INTERVAL 'interval 5 minutes'", "(a + INTERVAL '5 min')"),
        ("INTERVAL 1 HOUR '5' MINUTES", "(a + INTERVAL '65 min')"),
        ("INTERVAL 1 HOUR 5 MINUTES * 2", "(a + (INTERVAL '65 min' * 2))"),
        ("INTERVAL '-1' DAY '25' HOUR", "(a + INTERVAL '1 h')"),
        ("INTERVAL '2 days -1 hour'", "(a + INTERVAL '47 h')"),
        ("INTERVAL '1.2345678' SECOND", "(a + INTERVAL '1234567 us')"),
        ("INTERVAL '1 hour 5 minutes'", "(a + INTERVAL '65 min')"),
        ("INTERVAL '5 minutes'", "(a + INTERVAL '5 min')"),
        ("INTERVAL '2' MONTH", "(a + INTERVAL '2' MONTH)"),
        ("INTERVAL -1 YEAR", "(a + INTERVAL '-12' MONTH)"),
        ("INTERVAL '-2' MONTH", "(a + INTERVAL '-2' MONTH)"),
        ("INTERVAL '2 quarters'", "(a + INTERVAL '6' MONTH)"),
        ("INTERVAL '-1-2' YEAR TO MONTH", "(a + INTERVAL '-14' MONTH)"),
        ("INTERVAL '1 02' DAY TO HOUR", "(a + INTERVAL '26 h')"),
    ],
)
def test_an_interval(interval: str, name: str) -> None:
    assert parse(f"SELECT a + {interval} FROM s").columns == (name,)

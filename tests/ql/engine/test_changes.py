"""The compatibility table of docs/updates.md, row by row: what a changed text does to a running job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elfmesh.ql.engine.changes import compare, same_state

TEXT = """CREATE JOB shop.top REPLICAS 1 AS
SELECT product, COUNT(*) AS hits, SUM(bytes) AS volume FROM clicks WHERE directory = 'Games'
GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), product HAVING COUNT(*) > 1 ORDER BY hits DESC LIMIT 10"""

CHANGES = [
    ("HAVING COUNT(*) > 1", "HAVING COUNT(*) > 2", "keep", True),
    ("ORDER BY hits DESC LIMIT 10", "ORDER BY product LIMIT 3", "keep", True),
    ("COUNT(*) AS hits", "COUNT(*) * 2 AS hits", "keep", True),
    ("FROM clicks", "FROM clicks ON (role = 'web')", "keep", True),
    ("REPLICAS 1", "REPLICAS 2", "keep", True),
    ("REPLICAS 1", "REPLICAS 1 ACROSS region", "keep", True),
    ("REPLICAS 1", "STANDBY ALL", "keep", True),
    ("REPLICAS 1", "REPLICAS 1 PATHS 1 ACROSS rack", "keep", True),
    ("REPLICAS 1", "DEADLINE '3 s' HORIZON '9 s' ON STRAGGLER WAIT REPLICAS 1", "keep", True),
    (", SUM(bytes) AS volume", "", "keep", True),
    ("REPLICAS 1", "LATENESS '2 s' REPLICAS 1", "keep", True),
    ("REPLICAS 1", "ASSUME (bytes >= 0, k -> product) REPLICAS 1", "keep", True),
    ("directory = 'Games'", "directory = 'Books'", "warm up", True),
    ("SUM(bytes)", "SUM(size)", "warm up", True),
    ("SUM(bytes) AS volume", "SUM(bytes) AS volume, MAX(bytes) AS most", "warm up", True),
    (" product HAVING", " product, country HAVING", "reset", True),
    (
        "TUMBLE(ts, INTERVAL '30' SECOND)",
        "HOP(ts, INTERVAL '30' SECOND, INTERVAL '60' SECOND)",
        "reset",
        True,
    ),
    ("INTERVAL '30' SECOND", "INTERVAL '10' SECOND", "reset", False),
    ("FROM clicks", "FROM buys", "reset", False),
    ("REPLICAS 1", "PARTITIONS 4 REPLICAS 1", "reset", False),
]


@pytest.mark.parametrize(("old", "new", "state", "in_place"), CHANGES)
def test_what_a_change_does(old: str, new: str, state: str, in_place: bool) -> None:
    assert old in TEXT
    difference = compare(TEXT, TEXT.replace(old, new))
    assert (difference.state, difference.in_place) == (state, in_place)
    back = compare(TEXT.replace(old, new), TEXT)
    assert back.in_place == in_place


def test_the_effect_on_each_column_is_named() -> None:
    text = TEXT.replace("SUM(bytes) AS volume", "AVG(bytes) AS mean, MAX(size) AS most")
    assert dict(compare(TEXT, text).columns) == {
        "product": "keep",
        "hits": "keep",
        "mean": "new",
        "most": "new",
        "volume": "removed",
    }


SESSIONS = TEXT.replace("TUMBLE(ts, INTERVAL '30' SECOND)", "SESSION(ts, INTERVAL '30' SECOND)")


@pytest.mark.parametrize(
    ("old", "new", "state", "same"),
    [
        ("HAVING COUNT(*) > 1", "HAVING window_end > ts_of_old", "keep", True),
        ("FROM clicks", "FROM clicks ON (role = 'web')", "keep", True),
        ("REPLICAS 1", "LATENESS '2 s'", "keep", True),
        ("REPLICAS 1", "ASSUME (k -> product)", "keep", True),
        ("directory = 'Games'", "directory = 'Books'", "reset", False),
        ("SUM(bytes) AS volume", "SUM(bytes) AS volume, MAX(bytes) AS most", "reset", False),
        (" product HAVING", " product, country HAVING", "reset", False),
        ("SESSION(ts", "TUMBLE(ts", "reset", False),
    ],
)
def test_open_sessions_are_kept_or_begin_again(old: str, new: str, state: str, same: bool) -> None:
    assert old in SESSIONS
    text = SESSIONS.replace(old, new.replace("ts_of_old", "TIMESTAMP '2020-01-01 00:00:00'"))
    difference = compare(SESSIONS, text)
    assert (difference.state, difference.in_place) == (state, True)
    assert same_state(SESSIONS, text) is same


def test_the_parts_of_a_join_are_compared_too() -> None:
    text = """CREATE JOB shop.both AS
SELECT c.product, COUNT(*) AS n FROM clicks c WHERE c.directory = 'Games'
GROUP BY TUMBLE(c.ts, INTERVAL '30' SECOND), c.product
UNION ALL SELECT b.product, COUNT(*) AS n FROM buys b
GROUP BY TUMBLE(b.ts, INTERVAL '30' SECOND), b.product"""
    other = compare(text, text.replace("'Games'", "'Books'"))
    assert not other.same_records
    assert other.state == "warm up"
    assert compare(text, text + "\n").same_records


def test_agents_evaluate_open_windows_again_with_another_assumption() -> None:
    found = compare(TEXT, TEXT.replace("REPLICAS 1", "ASSUME (bytes >= 0)"))
    assert not found.same_records
    assert "other assumptions" in found.reasons


def test_another_second_stage_over_the_same_parts_keeps_the_state() -> None:
    text = (
        "CREATE JOB a.b EVERY '10 s' AS SELECT k, n FROM ("
        "SELECT k, n, row_number() OVER (ORDER BY n DESC) AS r "
        "FROM (SELECT k, count(*) AS n FROM s GROUP BY k) x) y WHERE r <= 3"
    )
    found = compare(text, text.replace("SELECT k, n FROM", "SELECT k, n * 2 AS n FROM"))
    assert (found.state, found.in_place, found.same_records) == ("keep", True, True)
    assert found.reasons == ("only the end of the query has changed",)
    found = compare(text, text.replace("FROM s GROUP", "FROM s ON (role = 'web') GROUP"))
    assert not found.same_records  # agents without the label go on without it


def test_the_documented_table_is_the_one_that_is_computed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "updates.md").read_text()
    rows = re.findall(r"^\| .* \| (keep|warm up|reset) \| (yes|no) \|", page, re.MULTILINE)
    assert set(rows) == {(state, "yes" if in_place else "no") for _, _, state, in_place in CHANGES}


@pytest.mark.parametrize(("old", "new"), [("PATHS 2", "PATHS 2, 2"), ("PATHS 2", "PATHS 2 COST 1.5")])
def test_other_trees_and_another_cost_of_paths_keep_the_state(old: str, new: str) -> None:
    found = compare(*(TEXT.replace("REPLICAS 1", each) for each in (old, new)))
    assert (found.state, found.in_place, found.reasons) == ("keep", True, ("other paths",))

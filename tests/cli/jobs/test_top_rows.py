"""Rows of `elf top`: rates, order, and columns that fit."""

from __future__ import annotations

from elfmesh.cli.jobs.top_rows import GAP, JOB_COLUMNS, FleetView, agent_rows, fitted, job_rows, ordered
from tests.cli.jobs.test_top import agent


def test_rates_are_differences_by_the_agents_own_clock() -> None:
    before = FleetView([agent("a", 100.0, {"x": 1.0, "y": 5.0})], [{"job": "x"}])
    now = FleetView([agent("a", 104.0, {"x": 3.0, "y": 5.0})], [{"job": "x"}])
    (row,) = agent_rows(before, now)
    assert (row["cpu_percent"], row["lines_per_second"], row["rss_mb"]) == (10.0, 1000.0, 90.0)
    assert (row["worst_job"], row["worst_percent"], row["limit_percent"]) == ("x", 50.0, 20.0)
    (job,) = job_rows(before, now)
    assert job["cpu_percent"] == 50.0
    assert tuple(job) == JOB_COLUMNS


def test_what_cannot_be_known_is_nothing() -> None:
    first = agent_rows(None, FleetView([agent("a", 104.0, {"x": 3.0})], []))[0]
    assert (first["cpu_percent"], first["worst_job"]) == (None, None)
    restarted = FleetView([agent("a", 3.0, {"x": 0.1}, incarnation=2)], [{"job": "x"}])
    before = FleetView([agent("a", 100.0, {"x": 9.0})], [])
    assert agent_rows(before, restarted)[0]["cpu_percent"] is None
    assert job_rows(before, restarted)[0]["cpu_percent"] is None
    assert agent_rows(before, FleetView([{"id": "a", "name": "a"}], []))[0]["rss_mb"] is None, (
        "an older version"
    )


def test_the_worst_stands_first_and_the_unknown_last() -> None:
    rows = [
        {"agent": name, "cpu_percent": cpu} for name, cpu in (("b", 1.0), ("c", None), ("a", 9.0), ("d", 9.0))
    ]
    assert [row["agent"] for row in ordered(rows, "cpu_percent", "agent")] == ["a", "d", "b", "c"]
    assert [row["agent"] for row in ordered(rows, "agent", "agent")] == ["a", "b", "c", "d"]
    jobs = [{"job": "a", "completeness": 1.0}, {"job": "b", "completeness": 0.5}]
    assert [row["job"] for row in ordered(jobs, "completeness", "job")] == ["b", "a"]


def test_columns_that_are_empty_or_do_not_fit_are_left_out() -> None:
    wanted = {"job": 20, "state": 7, "missing": 0, "cpu_percent": 5, "master": 30}
    assert fitted(wanted, ("job", "missing"), 200) == wanted, "sorted by it"
    assert fitted(wanted, ("job",), 200) == {"job": 20, "state": 7, "cpu_percent": 5, "master": 30}
    assert fitted(wanted, ("job",), 40) == {"job": 11, "state": 7, "cpu_percent": 5, "master": 11}
    assert fitted(wanted, ("job",), 30) == {"job": 9, "state": 7, "cpu_percent": 5}
    assert fitted(wanted, ("job",), 4) == {"job": 4}
    for width in range(1, 99):
        found = fitted(wanted, ("job", "cpu_percent"), width)
        assert set(found) >= {"job", "cpu_percent"}
        assert sum(found.values()) + GAP * (len(found) - 1) <= max(width, 2 + GAP)

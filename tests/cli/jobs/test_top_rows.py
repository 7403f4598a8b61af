"""Rows of `elf top`: rates, order, what an agent or a job consists of, and histories."""

from __future__ import annotations

from elfmesh.cli.jobs.top_rows import (
    AGENTS,
    COLUMNS,
    JOB_COLUMNS,
    JOBS,
    SAMPLES_MAX,
    SORTS,
    FleetView,
    LoadHistory,
    agent_rows,
    job_rows,
    ordered,
    parts_of,
    rows_of,
)
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


def test_an_agent_has_its_costliest_jobs_and_a_job_the_agents_that_spend_on_it() -> None:
    before = FleetView([agent("a", 100.0, {"x": 1.0, "y": 5.0}), agent("b", 100.0, {"x": 2.0})], [])
    now = FleetView([agent("a", 104.0, {"x": 3.0, "y": 5.4}), agent("b", 104.0, {"x": 2.4})], [])
    assert parts_of(AGENTS, "a", before, now) == [
        {"job": "x", "cpu_percent": 50.0}, {"job": "y", "cpu_percent": 10.0},
    ]  # fmt: skip
    assert parts_of(JOBS, "x", before, now) == [
        {"agent": "a", "cpu_percent": 50.0}, {"agent": "b", "cpu_percent": 10.0},
    ]  # fmt: skip
    assert parts_of(JOBS, "x", None, now)[0]["cpu_percent"] is None
    assert parts_of(AGENTS, "gone", before, now) == []


def test_a_history_has_the_known_values_of_those_that_are_listed() -> None:
    history, before = LoadHistory(), None
    for at in range(SAMPLES_MAX + 3):
        now = FleetView([agent("a", 100.0 + at)], [{"job": "x", "completeness": at}])
        history.add(before, now)
        before = now
    assert history.of(AGENTS, "a", "cpu_percent") == [10.0] * SAMPLES_MAX
    assert history.of(JOBS, "x", "completeness")[:2] == [3, 4]
    assert history.of(JOBS, "x", "cpu_percent") == []
    history.add(before, FleetView([], []))
    assert history.of(AGENTS, "a", "cpu_percent") == []


def test_each_key_sorts_by_a_column_of_its_view() -> None:
    for view, keys in SORTS.items():
        assert {*keys.values()} <= {*COLUMNS[view]}
        assert not {*keys} & {"a", "j", "q"}, "these have another meaning"
    assert rows_of(JOBS, None, FleetView([], [{"job": "x"}]))[0]["job"] == "x"

"""The load of an agent in a few numbers, as its row in the list of all agents has it."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.jobs.load import (
    INSECURE,
    WORST,
    insecurity,
    is_insecure,
    load_of,
    security_of,
    warnings_of,
)


def agent(**costs: dict[str, Any]) -> dict[str, Any]:
    return {"job_costs": costs, "processor": {"cpu_seconds": 7.5}, "sources": {"log": {"lines": 40}}}


def test_an_agent_without_jobs_is_behind_nothing() -> None:
    found = load_of(agent(), 100.0, None)
    assert (found["behind_seconds"], found["jobs"], found["worst"], found["slowed"]) == (None, 0, {}, [])
    assert (found["cpu_seconds"], found["lines"], found["rss_bytes"]) == (7.5, 40, None)


def test_the_job_that_is_furthest_behind_counts() -> None:
    found = agent(
        a={"cpu_seconds": 1.0, "watermark_seconds": 90.0},
        b={"cpu_seconds": 1.0, "watermark_seconds": 60.0},
        c={"cpu_seconds": 1.0, "watermark_seconds": None},
    )
    assert load_of(found, 100.0, 1)["behind_seconds"] == 40.0


def test_a_watermark_ahead_of_the_clock_is_not_behind() -> None:
    assert (
        load_of(agent(a={"cpu_seconds": 1.0, "watermark_seconds": 120.0}), 100.0, 1)["behind_seconds"] == 0.0
    )


def test_the_jobs_that_cost_most_are_named_and_equal_ones_by_name() -> None:
    costs = {f"j{number}": {"cpu_seconds": float(number % 3)} for number in range(8)}
    assert list(load_of(agent(**costs), 0.0, 1)["worst"]) == ["j2", "j5", "j1", "j4", "j7"]


def test_jobs_that_are_slowed_or_crowd_others_are_named_once() -> None:
    found = agent(a={"cpu_seconds": 0.0, "crowds": "memory"}, b={"cpu_seconds": 0.0, "crowds": ""})
    found["processor"]["slowed"] = ["c", "a"]
    assert load_of(found, 0.0, 1)["slowed"] == ["a", "c"]


@pytest.mark.parametrize(
    ("reported", "mode"),
    [
        ({"security": {"mode": INSECURE}}, "INSECURE"),
        ({"security": {"mode": "certificates"}}, "certificates"),
        ({"security": "nonsense"}, ""),
        ({}, ""),
    ],
)
def test_the_mode_is_the_one_that_the_agent_reports(reported: dict[str, Any], mode: str) -> None:
    assert security_of(reported) == mode
    assert is_insecure(reported) is (mode == "INSECURE")


def test_a_warning_names_a_few_agents_and_counts_the_others() -> None:
    rows = [{"name": f"a{number}", "security": {"mode": INSECURE}} for number in range(WORST + 2)]
    assert insecurity([{"name": "safe"}]) == ""
    assert insecurity(rows).endswith("a0, a1, a2, a3, a4 and 2 more")
    assert insecurity(rows[:2]).endswith("a0, a1")


@pytest.mark.parametrize(
    ("fact", "warnings"),
    [
        ({}, []),
        ({"skew_seconds": 1.0, "security": {"expires": "1970-01-15T00:00:00Z"}}, []),
        ({"skew_seconds": -1.5}, ["its clock differs by -1.5 s from those of the other agents"]),
        ({"security": {"expires": "1970-01-14T23:59:59Z"}}, ["its certificate expires in 13 days"]),
        ({"security": {"expires": "1969-12-31T23:00:00Z"}}, ["its certificate has expired"]),
        ({"security": {"problem": "torn"}}, ["torn"]),
        ({"security": {"expires": "soon"}}, ["its certificate ends at 'soon', which is no time"]),
        ({"security": {"expires": 7}}, ["its certificate ends at 7, which is no time"]),
        ({"security": {"expires": "9999-12-31T23:59:59-14:00"}}, []),
        ({"security": {"expires": "1970-01-02T00:00:00"}}, ["its certificate expires in 1 days"]),
    ],
)
def test_clocks_and_certificates_are_warnings(fact: dict[str, Any], warnings: list[str]) -> None:
    assert list(warnings_of(fact, 0.0)) == warnings

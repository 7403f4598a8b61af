"""The topology of a running job: planners read it, and its fidelity is what `elf what-if` prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elfmesh.api.job_topology import job_topology
from elfmesh.api.what_if import lost_agents, worth_without
from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.planner import plan
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_text import read_topology
from elfmesh.errors import DataError
from tests.api.test_what_if import AGENTS, BESIDE, BEST, EVEN, PAIRS, SIDES, SKEWED, TOP, job

UNITED = """CREATE JOB shop.all EVERY '10 s' AS SELECT k, count(*) AS n FROM
(SELECT k FROM clicks UNION ALL SELECT k FROM sales) GROUP BY k"""


def read(described: dict[str, Any], label: str = "rack") -> Topology:
    return read_topology(json.dumps(job_topology(AGENTS, described, label)), "job")


def alive(topology: Topology, lost: str) -> list[int]:
    return [task for task in range(len(topology)) if lost not in topology.domains[task]]


@pytest.mark.parametrize(
    ("text", "rates"),
    [(TOP, EVEN), (TOP, SKEWED), (PAIRS, SIDES), (UNITED, SIDES), (TOP, {1: (), 2: (4.0,)})],
)
def test_its_fidelity_is_that_of_later_results(text: str, rates: dict[int, tuple[float, ...]]) -> None:
    described = job("shop/top", text, rates)
    topology = read(described)
    for rack in ("r1", "r2", "r3"):
        (expected,) = worth_without(AGENTS, [described], lost_agents(AGENTS, [("rack", rack)]))
        assert fidelity(topology, alive(topology, f"rack={rack}")) == pytest.approx(expected.fidelity)


def test_a_plan_names_members() -> None:
    found = plan(read(job("shop/top", TOP, SKEWED)), 1, objective="worst")
    assert found.replicate == ("web1",)
    assert plan(read(job("shop/top", TOP, EVEN), "agent"), 6, objective="worst").fidelity == 1


def test_a_join_has_a_task_for_each_member_and_input() -> None:
    topology = read(job("shop/pairs", PAIRS, SIDES))
    assert [each.name for each in topology.operators] == ["clicks.1", "sales.2", "master.2"]
    assert topology.operators[-1].correlated
    assert topology.names[:2] == ("web1 clicks.1", "web2 clicks.1")
    assert topology.domains[-1] == ()


def test_the_results_of_another_job_are_left_out() -> None:
    topology = read(job("shop/beside", BESIDE, EVEN))
    assert len(topology.operators) == 1


def test_two_members_of_one_name_are_two_tasks() -> None:
    described = job("shop/top", TOP, EVEN)
    described["roster"]["agents"][1]["agent"] = "web1"
    assert {"web1#1", "web1#2"} <= set(read(described).names)


def test_what_has_no_members_is_refused() -> None:
    with pytest.raises(DataError, match="no members") as refused:
        job_topology(AGENTS, job("shop/best", BEST, {}), "rack")
    assert "shop/top" in refused.value.hint
    with pytest.raises(DataError, match="no members"):
        job_topology(AGENTS, job("shop/top", TOP, {}), "rack")
    with pytest.raises(DataError, match="no agent has the label 'rak'"):
        job_topology(AGENTS, job("shop/top", TOP, EVEN), "rak")

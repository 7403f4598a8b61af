"""The choice of the algorithm, and what is stated about a plan."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from elfmesh.control.planning.planner import ALGORITHMS, Planned, plan
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.errors import UsageError
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_1, figure_2, operator, random_topology

WITHOUT_SOLVER = tuple(each for each in ALGORITHMS if each != "milp")


def test_no_planner_exceeds_its_budget_or_claims_too_much() -> None:
    for topology in small_topologies(25):
        brute = Brute(topology)
        for algorithm in WITHOUT_SOLVER:
            last = 0.0
            for budget in range(len(topology) + 1):
                try:
                    found = plan(topology, budget, algorithm=algorithm)
                except UsageError:
                    assert algorithm.startswith("exact")
                    break
                optimum = brute.optimum(budget)
                assert len(found.replicate) == len(set(found.replicate)) == found.used <= budget
                assert found.fidelity <= optimum + 1e-9
                assert found.bound >= optimum - 1e-9
                assert [*found.curve] == sorted(found.curve)
                if found.optimal:
                    assert found.fidelity == pytest.approx(optimum)
                if algorithm in ("dp", "exact-forest", "exact-full", "auto"):
                    assert found.fidelity >= last - 1e-9, "more budget, less fidelity"
                    last = found.fidelity


@pytest.mark.exhaustive
def test_plans_of_200_topologies_against_brute_force() -> None:
    for topology in small_topologies(200, costs=True, tasks_max=14):
        brute = Brute(topology)
        for budget in range(len(topology) + 1):
            found = plan(topology, budget)
            assert found.used <= budget
            assert found.fidelity <= brute.optimum(budget) + 1e-9
            if found.optimal:
                assert found.fidelity == pytest.approx(brute.optimum(budget))


@pytest.mark.exhaustive
@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("algorithm", ["dp", "milp", "exact-forest", "exact-full"])
def test_exact_plans_of_200_topologies_equal_brute_force(algorithm: str, costs: bool) -> None:
    if algorithm == "milp":
        pytest.importorskip("highspy")
    planned = 0
    for topology in small_topologies(200, costs=costs, tasks_max=14):
        brute = Brute(topology)
        for budget in range(len(topology) + 1):
            try:
                found = plan(topology, budget, algorithm=algorithm)
            except UsageError:  # it does not apply
                assert algorithm.startswith("exact") or (algorithm == "dp" and costs)
                break
            assert found.optimal
            assert found.fidelity == pytest.approx(brute.optimum(budget), abs=1e-6)
            planned += 1
    assert planned > 100 or (algorithm == "dp" and costs)


def test_auto_is_at_least_as_good_as_the_algorithms_of_the_paper() -> None:
    for seed in range(20):
        topology = random_topology(random.Random(seed), (4, 6), (2, 6))
        for budget in (3, len(topology) // 3, len(topology) // 2):
            best = plan(topology, budget).fidelity
            for algorithm in ("structure-aware", "greedy", "paths"):
                assert best >= plan(topology, budget, algorithm=algorithm).fidelity - 1e-9


def test_a_budget_for_everything_is_optimal() -> None:
    topology = figure_1(join=True)
    assert plan(topology, len(topology)).optimal
    assert plan(topology, len(topology)).fidelity == 1


@pytest.mark.parametrize("algorithm", ["dp", "greedy", "structure-aware"])
def test_algorithms_of_the_paper_count_tasks(algorithm: str) -> None:
    values = operator("A", 2)
    values["tasks"][0]["cost"] = 3
    with pytest.raises(UsageError, match="counts tasks"):
        plan(topology_of({"operators": [values]}), 2, algorithm=algorithm)


def test_an_exact_planner_states_where_it_applies() -> None:
    with pytest.raises(UsageError, match="every task sends to one task"):
        plan(figure_1(join=False), 3, algorithm="exact-forest")
    with pytest.raises(UsageError, match="all streams are full"):
        plan(figure_1(join=False), 3, algorithm="exact-full")
    assert plan(figure_2(join=True), 3).algorithm == "exact-forest"


def test_objectives_over_domains_have_one_algorithm() -> None:
    values = operator("A", [3.0, 1.0])
    for task, rack in zip(values["tasks"], ("r1", "r2"), strict=True):
        task["domains"] = [f"rack={rack}"]
    topology = topology_of({"operators": [values]})
    worst = plan(topology, 1, objective="worst")
    assert worst == Planned(("A.00",), 0.75, 1.0, False, 1.0, ((0.0, 0.25), (1.0, 0.75)), "worst")
    assert plan(topology, 1, objective="expected").fidelity == pytest.approx((1 + 0.75) / 2)
    with pytest.raises(UsageError, match="has one algorithm"):
        plan(topology, 1, objective="worst", algorithm="dp")


PROGRAM = """
import json, random
from elfmesh.control.planning.planner import plan
from tests.control.planning.topologies import random_topology
plans = []
for seed in range(6):
    topology = random_topology(random.Random(seed), (3, 5), (2, 4))
    for algorithm in ("auto", "paths", "dp", "greedy", "structure-aware"):
        plans.append(plan(topology, 6, algorithm=algorithm).replicate)
print(json.dumps(plans))
"""


def test_processes_with_other_hash_seeds_make_the_same_plans() -> None:
    plans = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(plans) == 1
    assert any(json.loads(plans.pop()))

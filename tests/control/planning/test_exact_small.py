"""Plans of small topologies of any shape against the value of every plan."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.exact_small import SMALL_TASKS_MAX, exact_small, is_small
from elfmesh.control.planning.planner import plan
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.errors import UsageError
from tests.control.planning.brute import Brute, small_topologies

CROSSED = {
    "operators": [
        {"name": "a", "tasks": [{"name": f"a{at}", "rate": 1} for at in range(3)]},
        {"name": "b", "tasks": [{"name": "b0"}, {"name": "b1"}], "inputs": [{"from": "a"}]},
        {"name": "c", "tasks": [{"name": "c0"}, {"name": "c1"}], "inputs": [{"from": "b"}, {"from": "a"}]},
    ],
    "edges": [
        *(["a0", "b0", 4], ["a1", "b0", 1], ["a1", "b1", 5], ["a2", "b1", 2]),
        *(["b0", "c0", 1], ["b1", "c0", 3], ["b1", "c1", 2], ["a0", "c1", 5], ["a2", "c0", 2]),
    ],
}
"""No forest, and not full: two operators send to the last one."""


@pytest.mark.parametrize("costs", [False, True])
def test_every_budget_has_the_optimum_at_least_cost(costs: bool) -> None:
    for topology in small_topologies(40, costs=costs):
        brute = Brute(topology)
        for budget in range(len(topology) + 1):
            tasks, curve = exact_small(topology, budget)
            optimum = brute.optimum(budget)
            used = sum(topology.costs[task] for task in tasks)
            assert used <= budget
            assert curve[-1][0] == used
            assert curve[-1][1] == pytest.approx(optimum)
            assert brute.costs[brute.values >= optimum - 1e-9].min() == used
            assert [*curve] == sorted(curve)


def test_the_plan_of_a_small_topology_is_optimal_whatever_its_shape() -> None:
    topology = topology_of(CROSSED)
    brute = Brute(topology)
    for budget in range(1, len(topology)):
        found = plan(topology, budget)
        assert found.optimal
        assert found.fidelity == found.bound == pytest.approx(brute.optimum(budget))


def test_a_larger_topology_has_another_planner() -> None:
    tasks = [{"name": f"a{at}", "rate": 1} for at in range(SMALL_TASKS_MAX)]
    values = {
        "operators": [
            {"name": "a", "tasks": tasks},
            {"name": "b", "tasks": [{"name": "b"}], "inputs": [{"from": "a", "partitioning": "merge"}]},
        ]
    }
    topology = topology_of(values)
    assert not is_small(topology)
    with pytest.raises(UsageError, match="exact-small plans topologies of at most 14 tasks"):
        plan(topology, 2, algorithm="exact-small")

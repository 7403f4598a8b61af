"""Plans against the loss of one domain."""

from __future__ import annotations

import itertools
import random

import pytest

from elfmesh.control.planning.domains import Scenarios
from elfmesh.control.planning.mc_trees import tasks_of, tree_of
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from elfmesh.errors import UsageError
from tests.control.planning.topologies import operator


def in_racks(values: dict[str, object], racks: list[str]) -> dict[str, object]:
    tasks = values["tasks"]
    assert isinstance(tasks, list)
    for task, rack in zip(tasks, racks, strict=True):
        task["domains"] = [f"rack={rack}"]
    return values


def merged(rates: list[float], racks: list[str]) -> Topology:
    return topology_of(
        {"operators": [in_racks(operator("A", rates), racks), operator("B", 1, ("A", "merge"))]}
    )


def test_the_worst_domain_gets_the_next_replica() -> None:
    topology = merged([5.0, 1.0, 2.0, 2.0], ["r1", "r1", "r2", "r3"])
    scenarios = Scenarios(topology)
    assert topology.named(scenarios.worst(1)) == ("A.00",)
    (before, after) = scenarios.values(0, tree_of(scenarios.worst(1)))
    assert before["rack=r1"] == pytest.approx(0.4)
    assert min(after.values()) == pytest.approx(0.8)


def test_with_equal_costs_and_without_joins_the_worst_case_is_optimal() -> None:
    for seed in range(20):
        dice = random.Random(seed)
        racks = [f"r{dice.randint(1, 3)}" for _ in range(8)]
        topology = merged([float(dice.randint(1, 9)) for _ in racks], racks)
        scenarios = Scenarios(topology)
        plans = [tree_of(each) for size in range(4) for each in itertools.combinations(range(8), size)]
        best = [min(values.values()) for values in scenarios.values(*plans)]
        for budget in range(4):
            plan = scenarios.worst(budget)
            (values,) = scenarios.values(tree_of(plan))
            optimum = max(
                value for value, each in zip(best, plans, strict=True) if each.bit_count() <= budget
            )
            assert len(plan) <= budget
            assert min(values.values()) == pytest.approx(optimum)


def test_a_join_that_lost_one_input_whole_gets_a_replica_of_it() -> None:
    operators = [
        in_racks(operator("A", [3.0, 1.0]), ["r1", "r1"]),
        in_racks(operator("B", [1.0, 1.0]), ["r2", "r3"]),
        operator("J", 1, ("A", "merge"), ("B", "merge"), correlated=True),
    ]
    topology = topology_of({"operators": operators})
    assert topology.named(Scenarios(topology).worst(1)) == ("A.00",)
    assert topology.named(Scenarios(topology).expected(1)) == ("A.00",)


def test_a_chain_in_one_domain_is_completed_as_a_whole() -> None:
    """No single replica raises the result, because the sender and the receiver are in the lost rack."""
    operators = [
        in_racks(operator("A", [1.0, 1.0]), ["r1", "r2"]),
        in_racks(operator("B", 2, ("A", "one-to-one")), ["r1", "r2"]),
    ]
    topology = topology_of({"operators": operators})
    plan = Scenarios(topology).worst(2)
    assert topology.named(plan) == ("A.00", "B.00")
    assert tasks_of(tree_of(Scenarios(topology).worst(1))) == []


def test_the_expected_value_is_the_mean_over_domains() -> None:
    topology = merged([6.0, 1.0, 1.0], ["r1", "r2", "r3"])
    scenarios = Scenarios(topology)
    assert topology.named(scenarios.expected(1)) == ("A.00",)
    assert len(scenarios.expected(9)) == 3


def test_a_topology_without_domains_is_refused() -> None:
    with pytest.raises(UsageError, match="need failure domains"):
        Scenarios(topology_of({"operators": [operator("A", 2)]}))

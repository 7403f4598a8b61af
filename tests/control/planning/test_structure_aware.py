"""Algorithm 5 with its steps of full topologies (Algorithm 4), and Algorithm 2."""

from __future__ import annotations

from elfmesh.control.planning.fidelity import fidelity, internal_completenesses
from elfmesh.control.planning.greedy import greedy
from elfmesh.control.planning.structure_aware import structure_aware
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import figure_1, figure_2, figure_4, operator


def test_a_budget_below_one_replica_for_each_operator_gives_an_empty_plan() -> None:
    topology = figure_4()
    assert structure_aware(topology, 5) == frozenset()
    assert fidelity(topology, structure_aware(topology, 6)) > 0


def test_a_full_topology_gets_the_heaviest_task_of_every_operator_first() -> None:
    topology = topology_of(
        {"operators": [operator("A", [1.0, 7.0]), operator("B", [2.0, 5.0], ("A", "full"))]}
    )
    assert topology.named(structure_aware(topology, 2)) == ("A.01", "B.01")
    assert topology.named(structure_aware(topology, 3)) == ("A.01", "B.00", "B.01")
    assert len(structure_aware(topology, 4)) == 4


def test_parts_are_completed_together() -> None:
    topology = figure_1(join=True)
    for budget in range(4, len(topology) + 1):
        plan = structure_aware(topology, budget)
        assert len(plan) <= budget
        assert fidelity(topology, plan) > 0
    assert fidelity(topology, structure_aware(topology, len(topology))) == 1


def test_internal_completeness_knows_no_join() -> None:
    """The plans that Fig. 12 compares: by internal completeness one input of a join may stay without."""
    topology = figure_2(join=True)
    plan = structure_aware(topology, 3, internal_completenesses)
    assert len(plan) == 3


def test_greedy_takes_the_tasks_whose_loss_alone_costs_most() -> None:
    topology = figure_2(join=False)
    assert topology.named(greedy(topology, 2)) == ("O2.00", "O3.00")
    assert fidelity(topology, greedy(topology, 2)) == 3 / 8

"""Completions, and plans made of them."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.mc_trees import mc_trees, tasks_of, tree_of
from elfmesh.control.planning.milp import milp
from elfmesh.control.planning.paths import Paths, paths, polished
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_1, operator, random_topology


def test_every_completion_of_an_empty_plan_contains_a_tree() -> None:
    for join in (False, True):
        topology = figure_1(join=join)
        trees = list(mc_trees(topology))
        found = Paths(topology).completions(0)
        assert found
        for each in found:
            assert any(not tree & ~each for tree in trees)


def test_a_join_whose_other_input_lives_needs_one_more_source() -> None:
    operators = [
        operator("A", [1.0, 4.0]),
        operator("B", [1.0, 1.0]),
        operator("J", 1, ("A", "merge"), ("B", "merge"), correlated=True),
    ]
    topology = topology_of({"operators": operators})
    search = Paths(topology)
    plan = search.fill(0, 3)
    assert topology.named(tasks_of(plan))[0] == "A.01"
    assert {each.bit_count() for each in search.completions(plan)} == {1}


def test_plans_of_small_topologies_are_close_to_the_optimum() -> None:
    gaps = []
    for topology in small_topologies(25, costs=True):
        brute = Brute(topology)
        for budget in (2, 4, 7, 11):
            plan = paths(topology, budget)
            assert sum(topology.costs[task] for task in plan) <= budget
            gaps.append(brute.optimum(budget) - fidelity(topology, plan))
    assert sum(gaps) / len(gaps) < 0.005


@pytest.mark.parametrize(("seed", "share"), [(0, 0.1), (9, 0.1), (0, 0.2), (5, 0.2), (1, 0.4)])
def test_equal_rates_need_another_first_completion(seed: int, share: float) -> None:
    """One order of completions of equal density is up to 20 % below the optimum."""
    pytest.importorskip("highspy")
    shape = ((5, 10), (2, 10), "structured")
    topology = random_topology(random.Random(seed), *shape, joins=0.0, zipf=0.0)
    budget = round(share * len(topology))
    best, one = milp(topology, budget), Paths(topology)
    found = polished(one, one.best_start(budget), budget)
    assert one.value(found)[0] == pytest.approx(best.bound, abs=1e-5)
    assert one.value(polished(one, one.fill(0, budget), budget))[0] < best.bound * 0.95


def test_polishing_drops_tasks_without_effect_and_spends_what_they_cost() -> None:
    topology = topology_of({"operators": [operator("A", [1.0, 4.0]), operator("B", 2, ("A", "one-to-one"))]})
    useless = tree_of([0, 3])
    assert fidelity(topology, tasks_of(useless)) == 0
    assert fidelity(topology, tasks_of(polished(Paths(topology), useless, 2))) == pytest.approx(0.8)


def test_a_banned_task_is_in_no_completion() -> None:
    topology = figure_1(join=False)
    banned = tree_of([0])
    assert all(not each & banned for each in Paths(topology).completions(0, banned))

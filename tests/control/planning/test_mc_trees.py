"""MC-trees of the paper's Fig. 1, and their weights."""

from __future__ import annotations

import random

import numpy as np
import pytest

from elfmesh.control.planning.fidelity import fidelity
from elfmesh.control.planning.mc_trees import alive_in, mc_trees, tasks_of, tree_of
from elfmesh.errors import RuntimeFailure
from tests.control.planning.brute import small_topologies
from tests.control.planning.topologies import figure_1

DAGS = 500


@pytest.mark.parametrize(("join", "count"), [(False, 16), (True, 8)])
def test_figure_1_has_as_many_trees_as_the_text_states(join: bool, count: int) -> None:
    topology = figure_1(join=join)
    trees = mc_trees(topology)
    assert len(trees) == count
    example = {"O1.00", "O3.00", "O4.00", *(["O2.00"] if join else [])}
    assert example in [set(topology.named(tasks_of(tree))) for tree in trees]


def test_the_weight_of_the_trees_inside_a_plan_is_its_fidelity() -> None:
    """Random DAGs with joins and shared tasks, and ten plans of each."""
    dice = random.Random(2)
    for topology in small_topologies(DAGS):
        trees = mc_trees(topology)
        assert sum(trees.values()) == pytest.approx(1)
        for _ in range(10):
            plan = tree_of(task for task in range(len(topology)) if dice.random() < 0.7)
            inside = sum(weight for tree, weight in trees.items() if not tree & ~plan)
            assert inside == pytest.approx(fidelity(topology, tasks_of(plan)))


def test_a_topology_with_too_many_trees_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="more than 15 MC-trees"):
        mc_trees(figure_1(join=False), most=15)


def test_sets_become_rows() -> None:
    assert np.flatnonzero(alive_in([tree_of([0, 9])], 10)[0]).tolist() == [0, 9]
    assert tasks_of(tree_of([9, 0, 9])) == [0, 9]

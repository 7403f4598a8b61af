"""Costs in units, and the best division of a budget."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.combining import COST_STEPS, all_of, behind, leaf, scaled, trace, weighted
from elfmesh.control.planning.exact_forest import exact_forest
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import operator


def test_the_budget_is_divided_where_it_gains_most() -> None:
    parts = [
        weighted(leaf(task, units=task + 1, limit=9), share) for task, share in enumerate((0.2, 0.3, 0.5))
    ]
    whole = all_of(parts, 9, product=False)
    assert whole.values == pytest.approx([0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0])
    assert sorted(trace(whole, 4)) == [0, 2]


def test_nothing_passes_without_the_task_itself() -> None:
    curve = behind(leaf(0, units=1, limit=5), task=1, units=2, limit=5)
    assert curve.values.tolist() == [0, 0, 0, 1]
    assert trace(curve, 2) == []
    assert sorted(trace(curve, 5)) == [0, 1]
    assert behind(leaf(0, units=1, limit=1), task=1, units=2, limit=1).values.tolist() == [0]


def test_costs_that_are_no_whole_numbers_are_rounded_up() -> None:
    values = operator("A", [1.0, 2.0, 3.0])
    for task, cost in zip(values["tasks"], (0.5, 1.25, 2.003), strict=True):
        task["cost"] = cost
    topology = topology_of({"operators": [values]})
    scale = scaled(topology, 2.0)
    assert not scale.exact
    assert scale.limit == COST_STEPS
    tasks = trace(exact_forest(topology, scale), COST_STEPS)
    assert tasks
    assert sum(topology.costs[task] for task in tasks) <= 2.0

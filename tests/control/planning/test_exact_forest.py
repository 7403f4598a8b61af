"""The optimum of trees of merges, against brute force and with costs."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.combining import scaled, trace
from elfmesh.control.planning.exact_forest import exact_forest, is_forest
from elfmesh.control.planning.exact_full import exact_full, is_full
from elfmesh.control.planning.fidelity import fidelity
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_1, figure_2


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize(("exact", "applies"), [(exact_forest, is_forest), (exact_full, is_full)])
def test_every_point_of_the_curve_is_the_optimum(exact, applies, costs: bool) -> None:  # type: ignore[no-untyped-def]  # two functions of one shape
    checked = 0
    for topology in small_topologies(60, costs=costs):
        if not applies(topology):
            continue
        checked += 1
        brute = Brute(topology)
        scale = scaled(topology, float(topology.costs.sum()))
        assert scale.exact
        curve = exact(topology, scale)
        assert (curve.values[1:] >= curve.values[:-1]).all()
        for budget in range(len(curve.values)):
            tasks = trace(curve, budget)
            assert len(tasks) == len(set(tasks))
            assert sum(topology.costs[task] for task in tasks) <= budget
            assert fidelity(topology, tasks) == pytest.approx(float(curve.values[budget]))
            assert fidelity(topology, tasks) == pytest.approx(brute.optimum(budget))
    assert checked > 5


def test_a_task_that_sends_to_two_tasks_is_in_no_forest() -> None:
    assert is_forest(figure_2(join=True))
    assert not is_forest(figure_1(join=False))
    assert not is_full(figure_1(join=False))

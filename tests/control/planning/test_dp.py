"""Algorithm 1 against brute force, and Theorem 1."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.dp import dp
from elfmesh.control.planning.fidelity import fidelity
from elfmesh.errors import RuntimeFailure
from tests.control.planning.brute import Brute, small_topologies
from tests.control.planning.topologies import figure_1


def test_the_plan_is_optimal_and_no_smaller_plan_is_as_good() -> None:
    for topology in small_topologies(20):
        brute = Brute(topology)
        for budget in range(len(topology) + 1):
            plan = dp(topology, budget)
            reached = fidelity(topology, plan)
            assert len(plan) <= budget
            assert reached == pytest.approx(brute.optimum(budget))
            if plan:  # Theorem 1
                smaller = brute.values[brute.sizes < len(plan)]
                assert smaller.max() < reached


def test_too_many_candidate_plans_are_refused() -> None:
    with pytest.raises(RuntimeFailure, match="more than 9 candidate plans"):
        dp(figure_1(join=False), 9, most=9)

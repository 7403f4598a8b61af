"""Clean records of one workload are equal over schedules of its fleet, and only clean ones need be."""

from __future__ import annotations

from functools import cache

import pytest

from tests.exhaustive import few
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.schedules import SCHEDULES, Comparison, compared, explore, schedule, workload
from tests.sim.swarm.soak import quiet

FEW = 3

pytestmark = [pytest.mark.apart, pytest.mark.slow]


@cache
def explored(seed: int) -> tuple[Comparison, list[Outcome]]:
    """Return what schedules show; few of the first workload, because `make test` runs it."""
    quiet()
    return explore(seed, SCHEDULES if seed else FEW)


@pytest.mark.parametrize("seed", few(range(20), 1))
def test_clean_records_are_equal_over_schedules(seed: int) -> None:
    found, _ = explored(seed)
    assert found.unsound == []
    assert found.clean > 0


def test_a_label_without_its_conditions_is_noticed() -> None:
    """Records that lack members or lost records differ: the conditions make the label true."""
    _, outcomes = explored(0)
    found = compared(outcomes, lambda published: published)
    assert any("clean records differ" in line for line in found.unsound)


def test_schedules_have_one_workload_and_replay_exactly() -> None:
    base = workload(3)
    other = schedule(base, 1)
    assert (other.jobs, other.traffic, other.traffic_seed) == (base.jobs, base.traffic, base.traffic_seed)
    assert other.seed != base.seed
    assert schedule(base, 1) == schedule(workload(3), 1)

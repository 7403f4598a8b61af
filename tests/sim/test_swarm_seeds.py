"""The first seeds of the swarm, and scenarios that once showed a bug, hold every invariant.

Clean records of one workload are equal over schedules of its fleet, and only clean ones need be.

`ELF_SIM_SEEDS` sets how many seeds; `make seeds` runs 300, `make soak-sim` thousands.
`make test` runs the newest short scenarios, `make test-all` the others.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tests.exhaustive import few
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.judging.sites import AT_SITES
from tests.sim.swarm.regressions import OPEN_SEEDS, REGRESSIONS, scenario
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.schedules import SCHEDULES, Comparison, compared, explore, schedule, workload
from tests.sim.swarm.soak import one, quiet, replay_of

FEW = 3

pytestmark = [pytest.mark.apart]

SEEDS = [seed for seed in range(int(os.environ.get("ELF_SIM_SEEDS", "1"))) if seed not in OPEN_SEEDS]
EACH_TIME, HOST_SECONDS_MAX = 2, 900
"""Scenarios of every run, and the simulated seconds of all hosts that one may have: they decide its cost."""


def _length(name: str) -> float:
    """Return the simulated seconds of all hosts, 0 if the scenario is short."""
    kept = scenario(name)
    host_seconds = kept.hosts * kept.safety_s
    return host_seconds if host_seconds > HOST_SECONDS_MAX else 0


NEWEST_FIRST = list(REGRESSIONS)[::-1]
SHORT_FIRST = sorted(NEWEST_FIRST, key=_length)
"""The newest that are short, then the others by length: `make test-all` runs most of them."""
LONGER = len(SHORT_FIRST) - EACH_TIME - 6
"""`make test-nightly` runs the six longest, which take half a minute each."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds_every_invariant(seed: int) -> None:
    _holds(seed)


WIDE = (325, 300, 304, 306, 362, 320, *range(308, 330), 345, 369, 384, 389, 601, 607, 630, 1222)
"""Seeds of other kinds (`drawing.wide`); the first six are one of each kind, and hosts of
the last four keep their data in their rack."""


@pytest.mark.parametrize("seed", few(dict.fromkeys(WIDE), 3))
def test_a_seed_of_another_kind_holds_every_invariant(seed: int) -> None:
    _holds(seed)


def test_votes_close_intervals_in_a_seed_that_draws_them() -> None:
    quiet()
    drawn = draw(WIDE[0])
    outcome = run(replace(drawn, safety_s=20.0))
    assert all(job.paths == wide.SITES for job in drawn.jobs)
    assert outcome.history.counters[AT_SITES] > 0
    assert check(outcome) == {}


def test_the_seeds_before_draw_none_of_the_other_kinds() -> None:
    jobs = [job for seed in range(wide.FROM) for job in draw(seed).jobs]
    assert not any(job.spans or job.paths or job.stated or job.assume for job in jobs)
    kinds = Counter(wide.kind_of(seed) for seed in range(wide.FROM, 2 * wide.FROM))
    assert set(kinds) == {*wide.KINDS, *wide.PROMISES} - {""}
    assert min(kinds.values()) > 20


@pytest.mark.parametrize("name", few(SHORT_FIRST, EACH_TIME, LONGER))
def test_what_once_showed_a_bug_holds_every_invariant(name: str) -> None:
    _holds(name)


def _holds(seed: int | str) -> None:
    wrong = one(seed)["wrong"]
    assert not wrong, f"{replay_of(seed)}: {wrong}"


CLEAN = 5
"""A workload with many clean records in two schedules. Elsewhere a loss in a late interval leaves none."""


@cache
def explored(seed: int) -> tuple[Comparison, list[Outcome]]:
    """Return what schedules show; few of the first workload, because `make test` runs it."""
    quiet()
    return explore(seed, FEW if seed == CLEAN else SCHEDULES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few([CLEAN, *(seed for seed in range(20) if seed != CLEAN)], 1, 2))
def test_clean_records_are_equal_over_schedules(seed: int) -> None:
    found, _ = explored(seed)
    assert found.unsound == []
    assert found.clean > 0 if seed == CLEAN else found.clean + found.open > 0


@pytest.mark.slow
def test_a_label_without_its_conditions_is_noticed() -> None:
    """Records that lack members or lost records differ: the conditions make the label true."""
    _, outcomes = explored(CLEAN)
    found = compared(outcomes, lambda published: published)
    assert any("clean records differ" in line for line in found.unsound)


def test_schedules_have_one_workload_and_replay_exactly() -> None:
    base = workload(3)
    other = schedule(base, 1)
    assert (other.jobs, other.traffic, other.traffic_seed) == (base.jobs, base.traffic, base.traffic_seed)
    assert other.seed != base.seed
    assert schedule(base, 1) == schedule(workload(3), 1)

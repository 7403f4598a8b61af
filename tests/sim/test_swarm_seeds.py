"""The first seeds of the swarm, and scenarios that once showed a bug, hold every invariant.

`ELF_SIM_SEEDS` sets how many seeds; `make seeds` runs 300, `make soak-sim` thousands.
`make test` runs the newest short scenarios, `make test-all` the others.
"""

from __future__ import annotations

import os

import pytest

from tests.exhaustive import few
from tests.sim.swarm.regressions import OPEN_SEEDS, REGRESSIONS, scenario
from tests.sim.swarm.soak import one, replay_of

pytestmark = [pytest.mark.apart]

SEEDS = [seed for seed in range(int(os.environ.get("ELF_SIM_SEEDS", "1"))) if seed not in OPEN_SEEDS]
EACH_TIME, HOST_SECONDS_MAX = 4, 900
"""Scenarios of every run, and the simulated seconds of all hosts that one may have: they decide its cost."""


def _is_long(name: str) -> bool:
    kept = scenario(name)
    return kept.hosts * kept.safety_s > HOST_SECONDS_MAX


NEWEST_FIRST = list(REGRESSIONS)[::-1]
SHORT_FIRST = sorted(NEWEST_FIRST, key=_is_long)
"""The newest that are short, then all others, which `make test-all` runs."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds_every_invariant(seed: int) -> None:
    _holds(seed)


@pytest.mark.parametrize("name", few(SHORT_FIRST, EACH_TIME))
def test_what_once_showed_a_bug_holds_every_invariant(name: str) -> None:
    _holds(name)


def _holds(seed: int | str) -> None:
    wrong = one(seed)["wrong"]
    assert not wrong, f"{replay_of(seed)}: {wrong}"

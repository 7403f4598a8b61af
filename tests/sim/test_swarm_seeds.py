"""The first seeds of the swarm, and all scenarios that once showed a bug, hold every invariant.

`ELF_SIM_SEEDS` sets how many seeds; `make seeds` runs 300, `make soak-sim` thousands.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.swarm.regressions import OPEN_SEEDS, REGRESSIONS
from tests.sim.swarm.soak import one, replay_of

pytestmark = [pytest.mark.apart]

SEEDS = [seed for seed in range(int(os.environ.get("ELF_SIM_SEEDS", "6"))) if seed not in OPEN_SEEDS]


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_a_seed_holds_every_invariant(seed: int | str) -> None:
    wrong = one(seed)["wrong"]
    assert not wrong, f"{replay_of(seed)}: {wrong}"

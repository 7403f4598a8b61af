"""The seeds of the swarm that one file of tests runs: files are what the suite's processes share out.

`ELF_SIM_SEEDS` sets how many there are in all; `make seeds` runs 300, `make soak-sim` thousands.
"""

from __future__ import annotations

import os

from tests.sim.swarm.regressions import OPEN_SEEDS, REGRESSIONS
from tests.sim.swarm.soak import one, replay_of

SEEDS = int(os.environ.get("ELF_SIM_SEEDS", "24"))
SHARES = 12


def seeds(share: int) -> list[int | str]:
    """Those of one share: the first so many without open findings, and all that once showed a bug."""
    wanted: list[int | str] = [*(seed for seed in range(SEEDS) if seed not in OPEN_SEEDS), *REGRESSIONS]
    return wanted[share::SHARES]


def hold(seed: int | str) -> None:
    """A seed or a kept scenario holds every invariant; what it violates is told with what replays it."""
    wrong = one(seed)["wrong"]
    assert not wrong, f"{replay_of(seed)}: {wrong}"

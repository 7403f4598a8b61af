from __future__ import annotations

import pytest

from tests.sim.seeds.share import hold, seeds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(5))
def test_a_seed_holds_every_invariant(seed: int | str) -> None:
    hold(seed)

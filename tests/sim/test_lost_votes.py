"""Whole agents whose state log rots or goes back in time: what was decided stays decided, and all goes on."""

from __future__ import annotations

import pytest

from tests.exhaustive import few
from tests.sim.swarm.measure import broken
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import ROLLBACKS, VOTES

pytestmark = [pytest.mark.apart]


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_an_agent_that_has_lost_its_votes_contradicts_nothing(seed: int) -> None:
    assert not broken(VOTES(draw(seed)), None)


@pytest.mark.parametrize("seed", few(range(24), 2))
def test_an_agent_that_went_back_in_time_is_found_out_within_seconds(seed: int) -> None:
    assert not broken(ROLLBACKS(draw(seed)), None)

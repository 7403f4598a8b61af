"""Whole agents whose results rot: readers get every record once and in order, from whichever copy has it."""

from __future__ import annotations

import pytest

from tests.exhaustive import few
from tests.sim.swarm.measure import broken
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import ROT

pytestmark = [pytest.mark.apart]


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_results_that_rot_at_one_agent_are_whole_for_every_reader(seed: int) -> None:
    assert not broken(ROT(draw(seed)), None)

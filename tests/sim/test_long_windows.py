"""Windows of ten minutes, and agents that die for good inside them: every record states who is missing."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from elfmesh.control.closing import eviction
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import small
from tests.sim.swarm.soak import quiet

pytestmark = [pytest.mark.apart]

WINDOW_S = 600
SAFETY_S = 640.0
"""Of faults: an agent that dies in the first window is dead for more than five minutes at its end."""


def outcome(seed: int, slide_s: int) -> Outcome:
    quiet()
    shape = small(
        kinds.DEAD,
        job={"slide_s": slide_s, "size_s": WINDOW_S, "straggler": "correct"},
        hosts=3,
        safety_s=SAFETY_S,
        trouble_s=20.0,
        poll_s=3.0,
    )
    drawn = shape(draw(seed))
    return run(replace(drawn, traffic=replace(drawn.traffic, rate=0.1)))


@pytest.mark.parametrize(
    ("seed", "slide_s"), [(1, WINDOW_S), pytest.param(3, 60, marks=pytest.mark.exhaustive)]
)
def test_a_record_of_a_long_window_names_the_agent_that_died_inside_it(seed: int, slide_s: int) -> None:
    found = outcome(seed, slide_s)
    assert found.faults, "no agent died"
    assert check(found) == {}
    partial = [record for _, each in found.records() if (record := each.record).missing]
    assert partial, "no record states that the dead agent is missing"


@pytest.mark.exhaustive
def test_without_the_rule_a_record_states_that_it_is_complete_and_is_not() -> None:
    with mock.patch.object(eviction.Evictions, "_not_begun", lambda self, frontier, at, since: at):
        assert "I6 completeness" in check(outcome(1, WINDOW_S))

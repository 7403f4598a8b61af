"""Windows of ten minutes, and agents that die for good inside them: every record names the missing agents.

`make test` uses windows of two minutes, and the master evicts a member one minute after its death.
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from elfmesh.control.closing import eviction
from tests.exhaustive import few
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.judging import invariants
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import small
from tests.sim.swarm.soak import quiet

pytestmark = [pytest.mark.apart]

WINDOW_S, SHORT_S = 600, 120
TROUBLE_S = 40
"""After the first window; an agent that dies in it has then been dead for half of the window and longer."""


def outcome(seed: int, window_s: int, slide_s: int) -> Outcome:
    quiet()
    shape = small(
        kinds.DEAD,
        job={"slide_s": slide_s, "size_s": window_s, "straggler": "correct"},
        hosts=3,
        safety_s=float(window_s + TROUBLE_S),
        trouble_s=20.0,
        poll_s=3.0,
    )
    drawn = shape(draw(seed))
    return run(replace(drawn, traffic=replace(drawn.traffic, rate=0.1)))


@pytest.fixture(autouse=True)
def _evicted_after_half_a_window(window_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (eviction, invariants):
        monkeypatch.setattr(module, "EVICT_S", module.EVICT_S * window_s / WINDOW_S)


@pytest.mark.parametrize("window_s", few([SHORT_S, WINDOW_S], 1))
@pytest.mark.parametrize(("seed", "slides"), [(1, 1), pytest.param(3, 10, marks=pytest.mark.exhaustive)])
def test_a_record_of_a_long_window_names_the_agent_that_died_inside_it(
    seed: int, slides: int, window_s: int
) -> None:
    found = outcome(seed, window_s, window_s // slides)
    assert found.faults, "no agent died"
    assert check(found) == {}
    partial = [record for _, each in found.records() if (record := each.record).missing]
    assert partial, "no record states that the dead agent is missing"


@pytest.mark.parametrize("window_s", few([SHORT_S, WINDOW_S], 1))
def test_without_the_rule_a_record_states_that_it_is_complete_and_is_not(window_s: int) -> None:
    with mock.patch.object(eviction.Evictions, "_not_begun", lambda self, frontier, at, since: at):
        assert "I6 completeness" in check(outcome(1, window_s, window_s))

"""An agent whose link is slower than the first time-out: late answers tell the round trip."""

from __future__ import annotations

import random

import pytest

from elfmesh.machine import Contact
from elfmesh.overlay import Route, Start
from elfmesh.overlay.calls import TIMEOUT_FIRST_S
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults, LinkModel


class FarLink(LinkModel):
    """Fast links between all hosts but one, whose frames take as long in each direction."""

    def __init__(self, far: bytes, delay_s: float) -> None:
        super().__init__(Faults())
        self._far, self._delay_s = far, delay_s

    def deliveries(self, src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
        extra = self._delay_s if self._far in (src, dst) and src != dst else 0.0
        return [extra + delay for delay in super().deliveries(src, dst, now, rng)]


@pytest.mark.parametrize("delay_s", [0.2, 0.3, 0.5, 0.7])
def test_an_agent_behind_a_slow_link_joins_and_stays(delay_s: float) -> None:
    crowd = Crowd(30, seed=3)
    far = Contact(crowd.rng.randbytes(20), "far", 7000)
    crowd.network.link = crowd.link = FarLink(far.id, delay_s)
    seeds = [crowd.agents[id].me for id in crowd.alive[:2]]
    crowd.network.add(far, crowd.overlay(far))
    crowd.network.give(far.id, Start(tuple((seed.host, seed.port) for seed in seeds)))
    crowd.network.run_for(30)
    assert far.id in crowd.joined
    siblings = {contact.id for contact in crowd.agents[far.id].siblings()}
    nearest = sorted(crowd.alive, key=lambda id: int.from_bytes(id) ^ int.from_bytes(far.id))[1:5]
    assert siblings >= set(nearest)
    crowd.delivered.clear()
    for number in range(20):
        source = crowd.rng.choice([id for id in crowd.alive if id != far.id])
        crowd.network.give(source, Route(far.id, str(number).encode(), b""))
        crowd.network.give(far.id, Route(source, f"back {number}".encode(), b""))
    crowd.network.run_for(20)
    bodies = sorted(delivered.body for _, delivered in crowd.delivered)
    assert len(bodies) == len(set(bodies)) == 40
    assert all(contact.id == delivered.key for contact, delivered in crowd.delivered)
    assert not any(down == far.id for id in crowd.alive for _, down in crowd.downs(id))


def test_an_answer_about_a_dead_agent_is_no_round_trip() -> None:
    """A helper answers after the dead agent has let it wait; a link is faster than that."""
    crowd = Crowd(60, seed=4)
    crowd.network.run_for(5)
    crowd.kill(12)
    crowd.network.run_for(10)
    assert crowd.counter("buried") > 100
    calls = [crowd.agents[id]._context.calls for id in crowd.alive]
    assert {call.timeout(None) for call in calls} == {TIMEOUT_FIRST_S}

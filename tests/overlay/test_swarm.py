"""Random faults of random strength; what must hold once they stop."""

from __future__ import annotations

import random

import pytest

from elfmesh.overlay import Start
from tests.overlay.crowd import Crowd
from tests.sim.world.network import Faults


@pytest.mark.parametrize("seed", range(8))
def test_once_the_faults_stop_all_living_agents_find_and_reach_each_other_and_no_dead_one(seed: int) -> None:
    dice = random.Random(seed)
    crowd = Crowd(25, seed=seed, faults=Faults.swarm(dice), every_s=dice.choice((0.0, 0.05, 0.5)))
    crowd.network.run_for(dice.uniform(0, 20))
    dead = crowd.kill(dice.randrange(0, 6))
    crowd.network.run_for(dice.uniform(0, 5))
    half = dice.randrange(3, 15)
    crowd.link.partition(crowd.alive[:half], crowd.alive[half:])
    for id in dead[:2]:
        reborn = crowd.network.restart(id, crowd.overlay)
        seed_of = crowd.agents[dice.choice([other for other in crowd.alive if other != id])].me
        crowd.network.give(reborn.id, Start(((seed_of.host, seed_of.port),)))
    crowd.network.run_for(dice.uniform(1, 40))
    crowd.link.heal()
    crowd.link.faults = Faults()
    crowd.network.run_for(60)
    assert set(crowd.alive) <= crowd.joined
    for key, found in crowd.look_ups(30, wait_s=3):
        assert found[0].id == crowd.closest(key)
        assert {contact.id for contact in found} <= set(crowd.alive)
    crowd.delivered.clear()
    for _ in range(30):
        crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20))
    crowd.network.run_for(3)
    assert len(crowd.delivered) == 30
    assert all(contact.id == crowd.closest(d.key) for contact, d in crowd.delivered)

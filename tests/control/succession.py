"""A job whose master dies while groups are open between two intervals."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.control.clicks import BASE, SLIDE
from tests.control.harness import World
from tests.control.member.support import Agent

Write = Callable[[list[Agent], random.Random], None]


def led_by_a_successor(text: str, job: str, seed: int, write: Write) -> tuple[World, list[Agent]]:
    """Return the fleet after a second master has closed all intervals, and the agents that stay.

    Args:
        text: of the job.
        job: its name.
        seed: chooses when the first master dies.
        write: writes the records of the agents that stay, so that nothing but knowledge dies with the master.
    """
    rng = random.Random(seed)
    world = World(6)
    world.apply(world[0], text)
    dead = world.master(job)
    stay = [agent for agent in world.living if agent is not dead]
    write(stay, rng)
    world.seal_all(BASE + 5 * SLIDE)
    world.run(rng.choice([0.0, 0.003, 0.01, 1.5]))
    world.kill(dead)
    world.run(rng.choice([0.0, 3.0]))
    world.seal_all(BASE + 9 * SLIDE)
    world.run(5.0)
    assert world.master(job) is not dead
    world.seal_all(BASE + 16 * SLIDE)
    world.run(10.0)
    indices = [record.index for record, _ in world.results(world.living[0], job)]
    assert indices == sorted(set(indices))
    return world, stay

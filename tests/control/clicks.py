"""A stream of clicks for the scenarios, and what the results of its job must be."""

from __future__ import annotations

import random

from tests.control.harness import World
from tests.control.member.support import SECOND, Agent

SLIDE = 10 * SECOND
BASE = 1_000 * SLIDE
PRODUCTS = ["apple", "beer", "corn", "dill", "eggs"]


def fill(world: World, *, intervals: int, first: int = 1000, seed: int = 1) -> None:
    rng = random.Random(seed)
    for agent in [each for each in world.living if "clicks" in each.streams]:
        records = []
        for index in range(first, first + intervals):
            for _ in range(rng.randrange(5, 20)):
                at = index * SLIDE + rng.randrange(SLIDE)
                records.append((at, rng.choice(PRODUCTS)))
        agent.feed("clicks", sorted(records))


def exact(world: World, agent: Agent, job: str = "shop/top", *, slide: int = SLIDE) -> None:
    found = world.results(agent, job)
    expected = world.expected(slide)
    assert {record.index: rows for record, rows in found} == expected
    indices = [record.index for record, _ in found]
    assert indices == sorted(indices)

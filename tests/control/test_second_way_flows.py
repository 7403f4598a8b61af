"""Reducers are lost shortly before an interval ends: whole agents on virtual time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.sim.test_stories import master, traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, wall_us

WINDOW_S, DEADLINE_S = 10, 0.5
JOB = f"""CREATE JOB sim.n DEADLINE '{DEADLINE_S} s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND), k"""


async def first_tentative(seed: int, agents: int, killed: int, fanout: int) -> tuple[int, int, float, int]:
    """Some agents die 0.3 s before an interval ends.

    Returns the agents in its first tentative record, those that live, the seconds from its end to its record,
    and the number of requests in the intervals before.
    """
    fleet = SimFleet(seed, agents, fanout=fanout)
    await fleet.start()
    await fleet.apply(JOB)
    await traffic(fleet, 2.0 * WINDOW_S + 5.0)
    leader = master(fleet)
    assert leader.local is not None
    (leading,) = leader.local.control.leadership.masters.values()
    term, stats = leading.term, leader.local.control.context.stats
    before = stats["control.asked_directly"]
    index = wall_us() // 1_000_000 // WINDOW_S
    end_us = (index + 1) * WINDOW_S * 1_000_000
    await traffic(fleet, (end_us - wall_us()) / 1e6 - 0.5)
    spared = {contact.id for contact in term.terms.acceptors} | {leader.id}
    others = [agent for agent in fleet.agents if agent.id not in spared]
    await asyncio.sleep((end_us - wall_us()) / 1e6 - 0.3)
    for agent in random.Random(seed).sample(others, killed):
        agent.crash()
    writing = asyncio.create_task(traffic(fleet, 5.0))

    async def seen(condition: Any) -> Any:
        async with asyncio.timeout(30):
            while not (value := condition()):  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.01)
            return value

    tentative = term.closer.tentative
    found = await seen(lambda: [each for each, _ in tentative.since(0) if each.index == index])
    await seen(lambda: term.committer.closed > index)
    closed_s = (wall_us() - end_us) / 1e6
    await writing
    fleet.check()
    return found[0].agents_in, agents - killed, closed_s, before


def noticed() -> None:
    inside, living, closed_s, before = vloop.run(first_tentative(1, 24, 8, 2))
    assert inside == living
    assert closed_s < 2.5
    assert not before, "there is no request while all agents are in time"


def test_every_living_agent_is_in_the_first_tentative_record() -> None:
    noticed()

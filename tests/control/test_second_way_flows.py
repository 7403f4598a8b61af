"""Reducers are lost shortly before an interval ends: whole agents on virtual time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from elfmesh.control.replicas import direct_requests
from elfmesh.control.replicas.direct_requests import DirectRequests
from tests.exhaustive import nightly
from tests.sim.test_stories import master, traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimFleet, wall_us

WINDOW_S, DEADLINE_S = 10, 0.5
JOB = f"""CREATE JOB sim.n DEADLINE '{DEADLINE_S} s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND), k"""


SEEDS_MORE, SEEDS = 3, 20
"""Fleets of sixty agents in `make test-all` and `make test-nightly`."""

FEW = 8


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


def wide(seed: int, agents: int = 60, killed: int = 15) -> None:
    inside, living, closed_s, before = vloop.run(first_tentative(seed, agents, killed, fanout=4))
    assert (inside, before) == (living, 0)
    assert closed_s < 2.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(SEEDS_MORE))
def test_so_it_is_in_a_fleet_of_sixty(seed: int) -> None:
    wide(seed)


@nightly
def test_so_it_is_in_many_fleets_of_sixty_and_in_one_of_two_hundred() -> None:
    for seed in range(SEEDS_MORE, SEEDS):
        wide(seed)
    wide(1, 200, 50)


@pytest.mark.exhaustive
def test_members_that_are_missing_at_once_are_asked_a_limited_number_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a small limit, because a fleet with more members than the real one takes a quarter of an hour."""
    awaited: list[tuple[int, int]] = []
    ask = DirectRequests.ask

    def counted(self: DirectRequests, missing: int, at: int, answer_bytes: int) -> float:
        again_at = ask(self, missing, at, answer_bytes)
        awaited.append((missing.bit_count(), len(self._asked)))
        return again_at

    monkeypatch.setattr(direct_requests, "ASKED_MAX", FEW)
    monkeypatch.setattr(DirectRequests, "ask", counted)
    inside, living, _, _ = vloop.run(first_tentative(1, 40, 20, fanout=2))
    assert inside <= living
    missing, requests = (max(each) for each in zip(*awaited, strict=True))
    assert missing > FEW, "otherwise nothing is limited"
    assert requests == FEW

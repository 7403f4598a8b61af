"""Reducers are lost shortly before an interval ends: agents, or their control machines, on virtual time."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from typing import Any

import pytest

from elfmesh.control.closing.straggler_orders import Stragglers
from elfmesh.control.protocol.messages_safety import KeptCopy
from elfmesh.control.protocol.messages_standby import ContributionRequest
from elfmesh.control.replicas import direct_requests
from elfmesh.control.replicas.direct_requests import ASKED_MAX, EXPECTED_BYTES_MAX, DirectRequests
from elfmesh.machine import Event, Message, Tick
from elfmesh.overlay.events import PeerUp
from elfmesh.srt.messages import Segment
from tests.control.harness import World
from tests.control.member.support import SECOND, Agent
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


class Crowd(World):
    """Control machines of many agents; no reducer passes anything on while `cut` is set.

    Attributes:
        awaited: members that have not answered a direct request.
        awaited_max: the greatest number of them at a time.
    """

    def __init__(self, agents: int) -> None:
        self.awaited, self.awaited_max, self.cut = set[int](), 0, False
        self._ticks: list[tuple[float, int]] = []
        super().__init__(agents)
        self.lost = self._watched

    def _watched(self, source: Agent, target: Agent, message: Message) -> bool:
        if isinstance(message, ContributionRequest):
            self.awaited.add(target.number)
        elif isinstance(message, KeptCopy):
            self.awaited.discard(source.number)
        self.awaited_max = max(self.awaited_max, len(self.awaited))
        return False

    def _arrive(self, tree: bytes, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        if not self.cut:
            super()._arrive(tree, segment, payloads)

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        if not isinstance(event, PeerUp) or agent.number < FEW:  # not all know each other
            super().post(delay, agent, event)

    def _step(self, agent: Agent, event: Event) -> None:
        super()._step(agent, event)
        if (at := agent.control.deadline) is not None:
            heapq.heappush(self._ticks, (at, agent.number))

    def run(self, seconds: float) -> None:
        """As in any world; the next deadline is found without a look at all agents."""
        end = self.now + seconds
        while True:
            while self._ticks and self[self._ticks[0][1]].control.deadline != self._ticks[0][0]:
                heapq.heappop(self._ticks)
            due = self._queue[0][0] if self._queue else float("inf")
            at = self._ticks[0][0] if self._ticks else float("inf")
            if min(due, at) > end:
                self.now = end
                return
            self.now = max(min(due, at), self.now)
            if due <= at:
                _, _, agent, event, _ = heapq.heappop(self._queue)
                self._step(agent, event)
            else:
                self._step(self[heapq.heappop(self._ticks)[1]], Tick())

    def interval(self, index: int) -> None:
        """Write a record at every agent in an interval of 10 s, and seal it."""
        for agent in self.living:
            agent.feed("clicks", [(index * WINDOW_S * SECOND, "a")])
        self.seal_all((index + 1) * WINDOW_S * SECOND)


def crowded(agents: int) -> Crowd:
    """Two intervals in time, and one of which only the master's own contribution arrives."""
    world = Crowd(agents)
    world.apply(world[0])
    world.run(5.0)
    for index in (1, 2):
        world.interval(index)
        world.run(WINDOW_S)
    assert world.results(world.master())[-1][0].agents_in == agents
    assert not world.sent["ContributionRequest"], "there is no request while all members are in time"
    world.cut = True
    world.interval(3)
    world.run(WINDOW_S + 10.0)
    record, _ = world.results(world.master())[-1]
    assert (record.index, record.agents_in, record.state) == (3, agents, "FINAL")
    assert world.sent["ContributionRequest"] >= agents - 1
    return world


def limited(agents: int) -> None:
    assert crowded(agents).awaited_max == ASKED_MAX


def test_hundreds_of_missing_members_are_asked_a_limited_number_at_a_time() -> None:
    limited(300)


@pytest.mark.exhaustive
def test_a_thousand_missing_members_are_asked_a_limited_number_at_a_time() -> None:
    limited(1000)


def test_the_answers_that_are_awaited_have_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    size: Callable[[Stragglers, int], int] = lambda self, at: 1 << 20  # noqa: E731 - a contribution
    monkeypatch.setattr(Stragglers, "_answer_bytes", size)
    assert crowded(40).awaited_max == EXPECTED_BYTES_MAX >> 20

"""A job at several sites while agents are away: for an hour, behind a cut, for good, or because they leave.

Whole agents on virtual time. `pytest -s` prints the seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.context import Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.member import roots
from elfmesh.control.paths import site_parts
from elfmesh.control.protocol.messages_succession import Page
from elfmesh.machine import Contact
from tests.control.paths.test_groups import REGIONS, gateways
from tests.control.paths.test_measured_layout import DEGRADED_S
from tests.control.paths.test_site import begun, has_grant, voted
from tests.control.paths.test_sites import AGENTS, BETWEEN_S, SITES, Wan, _term, sites
from tests.exhaustive import few
from tests.sim.test_agents import masters
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, until, wall_us
from tests.sim.world.memnet import MemoryTransport

AWAY_S = few([600.0, 3600.0], 1)
"""Twice the time after which an absent member is evicted, and an hour, which takes long to simulate."""

WIDTH_S = 20
LONG = SITES.replace("'2' SECOND", f"'{WIDTH_S}' SECOND").replace("'60 s'", "'5 s'")
"""Few intervals, so that an hour of virtual time is soon over."""

STALLED_S = 20.0
SLACK_S = 1.0
"""What a closing by the master may take beyond one by votes."""


@pytest.fixture(autouse=True)
def _patches() -> Iterator[None]:
    yield
    mock.patch.stopall()


class Closings:
    """How long after its end each interval is closed, at the agent that leads, in seconds."""

    def __init__(self, fleet: SimFleet, width_s: int = 2) -> None:
        self._fleet, self._width_s = fleet, width_s
        self.lags: dict[int, float] = {}
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        known: int | None = None
        while True:
            terms = [_term(agent) for agent in masters(self._fleet)]
            below = max((term.closer.closed for term in terms if term is not None), default=0)
            for index in range(below if known is None else known, below):
                self.lags[index] = wall_us() / 1e6 - (index + 1) * self._width_s
            known = max(below, known or 0)
            await asyncio.sleep(0.02)

    def longest(self, since: float) -> float:
        """The longest lag of the intervals that have ended since a time."""
        return max(lag for index, lag in self.lags.items() if (index + 1) * self._width_s > since)

    def stop(self) -> None:
        self._task.cancel()


async def sparse(fleet: SimFleet, seconds: float, rng: random.Random) -> None:
    """Each host that is there writes a line every five seconds."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            if agent.local is not None:
                agent.log.write(line(wall_us(), rng.choice("abc"), rng.randrange(100)))
        await asyncio.sleep(5)


async def long_job(seed: int) -> SimFleet:
    fleet = SimFleet(seed, AGENTS, regions=REGIONS)
    await fleet.start()
    Wan(fleet)
    answer = await fleet.apply(LONG)
    assert answer["acknowledged"] == AGENTS

    async def granted() -> bool:
        return has_grant(fleet)

    writing = asyncio.create_task(sparse(fleet, 400, random.Random(seed)))
    await until(granted, 400)
    writing.cancel()
    return fleet


def plain_member(fleet: SimFleet) -> SimAgent:
    """An agent that is neither a gateway nor a site."""
    named = {each.contact.id for each in gateways(fleet)} | {each.id for each in sites(fleet)}
    return next(agent for agent in fleet.agents if agent.id not in named)


async def records(fleet: SimFleet, since: float) -> list[ResultRecord]:
    found = await fleet.results("sim/sums", masters(fleet)[0].number)
    return [record for record, _ in found if (record.start_us or 0) >= since * 1e6]


@pytest.mark.parametrize("away_s", AWAY_S)
def test_an_agent_that_is_away_is_named_until_it_is_evicted_and_is_in_when_it_is_back(away_s: float) -> None:
    async def main() -> None:
        fleet = await long_job(1)
        victim = plain_member(fleet)
        victim.crash()
        left, before = wall_us() / 1e6, voted(fleet)
        await sparse(fleet, away_s, random.Random(1))
        found = await records(fleet, left)
        partial = [each for each in found if each.state != "FINAL"]
        assert {tuple(each.missing) for each in partial} == {(victim.name,)}
        assert found[: len(partial)] == partial, "until it is evicted, and never after"
        assert all((each.agents_expected, each.missing) == (AGENTS - 1, []) for each in found[len(partial) :])
        by_votes = voted(fleet) - before
        print(f"away for {away_s:g} s: {len(partial)} of {len(found)} records name it, votes {by_votes}")
        assert len(partial) * WIDTH_S < 400, "it is evicted after five minutes"
        assert by_votes >= 2 * (len(found) - len(partial) - 5), "nearly all others at two sites"
        back = wall_us() / 1e6
        await victim.start(fleet.seeds(victim))
        await sparse(fleet, 6 * WIDTH_S, random.Random(2))
        await asyncio.sleep(2 * WIDTH_S)
        later = await records(fleet, back)
        first = next(each for each in later if each.agents_expected == AGENTS)
        assert (first.state, first.completeness, first.missing) == ("FINAL", 1.0, [])
        assert {each.state for each in later} == {"FINAL"}
        fleet.check()

    vloop.run(main())


def held(fleet: SimFleet) -> tuple[int, int, int]:
    """The most bytes of a site, and the most parts and bytes of a tree, at any agent."""
    living = [agent.local.control for agent in fleet.agents if agent.local is not None]
    trees = [tree for each in living for tree in each.roots._trees.values()]
    return (
        max(each.member_host.site_parts.nbytes for each in living),
        max(len(tree.parts) for tree in trees),
        max(tree.nbytes for tree in trees),
    )


@pytest.mark.parametrize("cut_s", [600.0])  # the bounds are met long before
def test_a_cut_fills_no_gateway_and_no_site_beyond_its_bounds_and_declares_what_it_costs(
    cut_s: float,
) -> None:
    """The region of a site that does not lead is alone. Bounds are small, so that the cut meets them."""
    parts_max, tree_bytes_max, site_bytes_max = 20, 1 << 14, 1 << 13

    async def main() -> None:
        fleet = await long_job(2)
        mock.patch.object(roots, "HELD_PARTS_MAX", parts_max).start()
        mock.patch.object(roots, "HELD_BYTES_MAX", tree_bytes_max).start()
        mock.patch.object(site_parts, "HELD_BYTES_MAX", site_bytes_max).start()
        led = masters(fleet)[0]
        region = next(each for each in REGIONS if each != led.region)
        inside = [agent.id for agent in fleet.agents if agent.region == region]
        fleet.network.link.partition(inside, [each.id for each in fleet.agents if each.id not in inside])
        since, most = wall_us() / 1e6, (0, 0, 0)
        writing = asyncio.create_task(sparse(fleet, cut_s + 10 * WIDTH_S, random.Random(3)))
        for _ in range(round(cut_s / 10)):
            await asyncio.sleep(10)
            most = tuple(map(max, most, held(fleet)))  # type: ignore[assignment]  # three numbers, as before
        fleet.network.link.heal()
        print(f"a cut of {cut_s:g} s: {most[0]} bytes at a site, {most[1:]} parts and bytes in a tree")
        assert most[0] <= site_bytes_max
        assert most[1] <= parts_max
        assert most[2] <= tree_bytes_max
        assert most[1] == parts_max, "the cut has met the bound"
        healed = wall_us() / 1e6
        await writing
        await asyncio.sleep(3 * WIDTH_S)
        found = await records(fleet, since)
        names = {agent.name for agent in fleet.agents if agent.region == region}
        assert all({*each.missing} <= names for each in found)
        assert all(each.completeness == 1.0 or each.missing for each in found)
        last = [each for each in found if (each.start_us or 0) >= (healed + 5 * WIDTH_S) * 1e6]
        assert last
        assert {(each.state, each.agents_expected, each.agents_in) for each in last} == {
            ("FINAL", AGENTS, AGENTS)
        }
        fleet.check()

    vloop.run(main())


def test_no_site_is_replaced_where_all_are_late() -> None:
    """V-C: a replica is degraded while its peers are in time. Here everything from all agents is late."""

    async def main() -> None:
        fleet, _, writing = await begun(SITES, 6)
        led, before = masters(fleet)[0], sites(fleet)
        deliveries = fleet.network.link.deliveries

        def late(source: bytes, target: bytes, now: float, rng: random.Random) -> list[float]:
            return [delay + DEGRADED_S for delay in deliveries(source, target, now, rng)]

        patch = mock.patch.object(fleet.network.link, "deliveries", late)
        patch.start()
        for _ in range(120):
            await asyncio.sleep(1)
            assert {each.id for each in _term(led).layouts.layout.sites} == {each.id for each in before}
        patch.stop()

        async def granted() -> bool:
            return has_grant(fleet) and {each.id for each in sites(fleet)} == {each.id for each in before}

        await until(granted, 200)
        writing.cancel()
        fleet.check()

    vloop.run(main())


def test_a_new_site_votes_soon_after_it_has_the_log_and_meanwhile_no_interval_is_late() -> None:
    """It gets no page of the log for a while, as if the log were long."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        votes: dict[bytes, float] = {}
        note = Context.note

        def noted(context: Context, kind: str, *more: Any, **most: Any) -> None:
            if kind == "voted":
                votes.setdefault(context.me.id, loop.time())
            note(context, kind, *more, **most)

        fleet, _, writing = await begun(SITES, 3)
        closings, led, before = Closings(fleet), masters(fleet)[0], {each.id for each in sites(fleet)}
        await asyncio.sleep(10)
        usual, since = closings.longest(0), wall_us() / 1e6
        send, stalled = fleet.network.send, [True]

        def without_pages(source: MemoryTransport, to: Contact, frame: bytes) -> None:
            message, _ = fleet.network.codec.decode(frame)
            if not (stalled[0] and isinstance(message, Page) and to.id not in before):
                send(source, to, frame)

        mock.patch.object(fleet.network, "send", without_pages).start()
        mock.patch.object(Context, "note", noted).start()
        leaver = next(agent for agent in fleet.agents if agent.id in before - {led.id})
        assert (await leaver.ask("leave", {})).body["state"] == "left"
        leaver.crash()

        async def replaced() -> SimAgent | None:
            new = {each.id for each in sites(fleet)} - before
            return next((agent for agent in fleet.agents if agent.id in new), None)

        new = await until(replaced, 200, 0.02)
        await asyncio.sleep(STALLED_S)
        assert new.id not in votes
        stalled[0] = False
        job = _term(led).manifest.job_id

        async def whole() -> bool:
            records = new.results.logs.get(job, ("", []))[1]
            return bool(records) and records[-1][0].index >= _term(led).copy.latest

        await until(whole, 60, 0.02)
        has_log = loop.time()

        async def has_voted() -> bool:
            return new.id in votes

        await until(has_voted, 60, 0.02)
        longest = closings.longest(since)
        print(f"a new site votes {votes[new.id] - has_log:.2f} s after it has the log;", end=" ")
        print(f"closed {longest:.2f} s after its end at the latest, usually {usual:.2f} s")
        assert votes[new.id] - has_log <= 3 + 4 * BETWEEN_S
        assert longest <= usual + SLACK_S
        writing.cancel()
        closings.stop()
        fleet.check()

    vloop.run(main())


@pytest.mark.parametrize("role", ["gateway", "site"])
def test_an_agent_that_leaves_delays_no_interval(role: str) -> None:
    """`elf leave` of a gateway, and of a site. The master closes while a site is replaced."""

    async def main() -> None:
        fleet, _, writing = await begun(SITES, 4)
        closings, led = Closings(fleet), masters(fleet)[0]
        await asyncio.sleep(10)
        usual = closings.longest(0)
        at_sites = {each.id for each in sites(fleet)}
        named = {each.contact.id for each in gateways(fleet)} - at_sites if role == "gateway" else at_sites
        leaver = next(agent for agent in fleet.agents if agent.id in named - {led.id})
        since = wall_us() / 1e6
        reply = await leaver.ask("leave", {})
        assert reply.body["state"] == "left", reply.body
        leaver.crash()

        async def replaced() -> bool:
            agents = {each.contact.id for each in gateways(fleet)} | {each.id for each in sites(fleet)}
            return leaver.id not in agents and has_grant(fleet)

        await until(replaced, 200)
        await asyncio.sleep(6)
        longest = closings.longest(since)
        print(f"a {role} leaves: closed {longest:.2f} s after its end at the latest, usually {usual:.2f} s")
        assert longest <= usual + (0.1 if role == "gateway" else SLACK_S)
        writing.cancel()
        await asyncio.sleep(6)
        found = await records(fleet, since)
        assert {(each.state, tuple(each.missing)) for each in found} == {("FINAL", ())}
        assert {each.agents_expected for each in found} == {AGENTS, AGENTS - 1}
        closings.stop()
        fleet.check()

    vloop.run(main())

"""Whole agents on virtual time: who was cut off keeps and counts what the others closed without it (D-15)."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime

import pytest

from elfmesh.storage.deadletters import read_dead_letter
from tests.exhaustive import few
from tests.sim.test_agents import Results, closed, ended_us, masters, write
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until

TEXT = """CREATE JOB sim.sums DEADLINE '1 s' HORIZON '3 s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k ORDER BY k"""


def simple_member(fleet: SimFleet) -> SimAgent:
    """An agent that neither leads nor votes."""
    (leading,) = masters(fleet)
    assert leading.local is not None
    (master,) = leading.local.control.leadership.masters.values()
    voting = {contact.id for contact in master.term.terms.acceptors} | {leading.id}
    return next(agent for agent in fleet.agents if agent.id not in voting)


def letters(agent: SimAgent) -> dict[int, int]:
    names = agent.storage.names("dead-letter/")
    found = [read_dead_letter(agent.storage.read(name) or b"") for name in names]
    assert not any(letter.unknown for letter in found)
    return {letter.interval: letter.counts[0] for letter in found}


PATHS = TEXT.replace("DEADLINE", "PATHS 3 ACROSS region DEADLINE")


@pytest.mark.parametrize("text", [TEXT, PATHS], ids=["one tree", "paths"])
@pytest.mark.parametrize("restarted", few((True, False), 1))
def test_a_member_that_was_cut_off_loses_no_record_in_silence(restarted: bool, text: str) -> None:
    async def main() -> tuple[SimFleet, SimAgent, Results]:
        rng = random.Random(3)
        fleet = SimFleet(5, 6, regions=("ap", "eu", "us") if text == PATHS else ("",))
        await fleet.start()
        await asyncio.sleep(15)
        await fleet.apply(text)
        await write(fleet, 10, rng)
        await until(lambda: fleet.results("sim/sums", 0), 60)
        cut = simple_member(fleet)
        others = next(agent.number for agent in fleet.agents if agent is not cut)
        fleet.network.link.partition([cut.id], [agent.id for agent in fleet.agents if agent is not cut])
        await write(fleet, 30, rng)
        if restarted:
            cut.crash()
        fleet.network.link.heal()
        if restarted:
            await cut.start(fleet.seeds(cut))
        await write(fleet, 60, rng)
        upto = ended_us()
        await write(fleet, 6, rng)
        found = await closed(fleet, upto, others)
        fleet.check()
        return fleet, cut, found

    fleet, cut, found = vloop.run(main())
    dead = letters(cut)
    assert len(dead) >= 5, "a partition of 30 s"
    assert all(letters(agent) == {} for agent in fleet.agents if agent is not cut)
    for index in dead:
        assert cut.name in found[index][0].missing
    expired = sum(record.counts["expired"] for record, _ in found.values())
    assert expired >= sum(dead.values())
    each_is_counted_once(fleet, found)


def each_is_counted_once(fleet: SimFleet, found: Results) -> None:
    last = max(found)
    written = sum(
        _interval(line) <= last for agent in fleet.agents for line in bytes(agent.log.data).splitlines()
    )
    assert sum(sum(record.counts.values()) for record, _ in found.values()) == written


def number_of(agent: SimAgent) -> int | None:
    assert agent.local is not None
    members = agent.local.control.member_host.members.values()
    return next((member.entry.number for member in members if member.entry is not None), None)


async def joins(fleet: SimFleet, at: SimAgent) -> SimAgent:
    """One more agent, which knows one of the others, and waits for its number."""
    agent = SimAgent(fleet, len(fleet.agents))
    fleet.agents.append(agent)
    await agent.start(((at.contact.host, at.contact.port),))

    async def numbered() -> bool:
        return number_of(agent) is not None

    await until(numbered, 60)
    return agent


@pytest.mark.parametrize("both", few((True, False), 1))
def test_what_a_member_contributed_to_a_master_that_was_cut_off_is_counted_once(both: bool) -> None:
    """The master gives it a number, which another agent may get on the other side, and closes nothing."""

    async def main() -> tuple[SimFleet, SimAgent, Results]:
        rng = random.Random(3)
        fleet = SimFleet(5, 5)
        await fleet.start()
        await asyncio.sleep(15)
        await fleet.apply(TEXT)
        await write(fleet, 10, rng)
        await until(lambda: fleet.results("sim/sums", 0), 60)
        (cut,) = masters(fleet)
        sides = [cut.id, SimAgent(fleet, 5).id], [each.id for each in fleet.agents if each is not cut]
        fleet.network.link.partition(sides[0], [*sides[1], SimAgent(fleet, 6).id])
        await write(fleet, 1, rng)
        member = await joins(fleet, cut)
        await write(fleet, 20, rng)
        given = number_of(member)
        if both:
            other = await joins(fleet, next(each for each in fleet.agents if each.id in sides[1]))
            assert number_of(other) == given
        await write(fleet, 20, rng)
        fleet.network.link.heal()
        await write(fleet, 60, rng)
        upto = ended_us()
        await write(fleet, 6, rng)
        found = await closed(fleet, upto, next(each.number for each in fleet.agents if each is not cut))
        fleet.check()
        return fleet, member, found

    fleet, member, found = vloop.run(main())
    each_is_counted_once(fleet, found)
    assert len(letters(member)) >= 5, "closed by the other side"


def _interval(line: bytes) -> int:
    at = datetime.fromisoformat(json.loads(line)["ts"])
    return int(at.timestamp() // 2)

"""Standbys, and those that hold them, are lost, full or cut off: whole agents on virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.member.pane_sender import NO_ROOM, PaneSender
from tests.sim.test_stories import master, traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until, wall_us

WINDOW_S, RATE = 20, 4
SLOW_S = 0.8
"""Between a member and a slow standby, one way: many times the LAG of 100 ms."""

JOB = "CREATE JOB sim.{} DEADLINE '1 s' {} AS SELECT k, count(*) AS n FROM log GROUP BY {}, k"
TUMBLE = f"TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND)"


def sender(agent: SimAgent) -> PaneSender:
    assert agent.local is not None
    members = agent.local.control.member_host.members.values()
    return next(each.panes for each in members if each.plan.standby_s is not None)


async def half_a_window(clause: str, *more: str) -> tuple[SimFleet, SimAgent]:
    """A fleet in the middle of a window, and an agent that neither leads nor votes."""
    fleet = SimFleet(7, 6)
    await fleet.start()
    for name, of_job in zip("nm", (clause, *more), strict=False):
        await fleet.apply(JOB.format(name, of_job, TUMBLE))
    await traffic(fleet, 6.0)
    await traffic(fleet, WINDOW_S - wall_us() / 1e6 % WINDOW_S + WINDOW_S / 2)
    spared = set[bytes]()
    for agent in fleet.agents:
        assert agent.local is not None
        for each in agent.local.control.leadership.masters.values():
            spared |= {agent.id} | {contact.id for contact in each.term.terms.acceptors}
    return fleet, next(agent for agent in fleet.agents if agent.id not in spared)


async def record_of(fleet: SimFleet, at_us: int) -> ResultRecord:
    await traffic(fleet, WINDOW_S - at_us / 1e6 % WINDOW_S + 10 - (wall_us() - at_us) / 1e6)

    async def closed() -> list[ResultRecord]:
        records = [record for record, _ in await fleet.results("sim/n", master(fleet).number)]
        return [each for each in records if (each.end_us or 0) > at_us >= (each.start_us or 0)]

    found: list[ResultRecord] = await until(closed, 60)
    fleet.check()
    (record,) = found
    return record


async def both_die() -> tuple[ResultRecord, str]:
    fleet, down = await half_a_window("STANDBY ALL LAG '100 ms'")
    standby, at_us = sender(down).standby, wall_us()
    assert standby is not None
    assert sender(down).acknowledged
    for agent in fleet.agents:
        if agent.id in (down.id, standby.id):
            agent.crash()
    return await record_of(fleet, at_us), down.name


def test_a_member_that_dies_with_its_standby_has_no_prefix() -> None:
    record, down = vloop.run(both_die())
    assert down in record.missing
    assert len(record.missing) == 2
    assert down not in {each.agent for each in record.partly}


async def standby_dies() -> tuple[ResultRecord, str, float]:
    fleet, down = await half_a_window("STANDBY ALL LAG '100 ms'")
    panes, at_us = sender(down), wall_us()
    had = panes.standby
    assert had is not None
    lost = next(agent for agent in fleet.agents if agent.id == had.id)
    lost.crash()
    writing = asyncio.create_task(traffic(fleet, 6.0))

    async def another() -> bool:
        return panes.standby not in (None, had) and panes.acknowledged

    await until(another, 60, every_s=0.05)
    took_s = (wall_us() - at_us) / 1e6
    await writing
    return await record_of(fleet, at_us), lost.name, took_s


def test_when_a_standby_dies_alone_another_has_a_seed_within_five_seconds_and_no_result_changes() -> None:
    record, lost, took_s = vloop.run(standby_dies())
    assert took_s < 5
    assert record.missing == [lost]
    assert [each.agent for each in record.partly] == [lost], "it is itself a member with a standby"


async def closing_times(trouble: str) -> tuple[dict[int, float], dict[int, float]]:
    """When two jobs of one fleet closed the same intervals, with standbys in trouble and without standbys."""
    fleet, member = await half_a_window("STANDBY ALL LAG '100 ms'", "REPLICAS 0")
    standby = sender(member).standby
    assert standby is not None
    host = next(agent for agent in fleet.agents if agent.id == standby.id)
    if trouble in ("cut off", "slow"):
        pair, link = {member.id, host.id}, fleet.network.link
        deliveries = link.deliveries

        def hindered(src: bytes, dst: bytes, now: float, rng: random.Random) -> list[float]:
            delays = deliveries(src, dst, now, rng)
            if {src, dst} != pair:
                return delays
            return [each + SLOW_S for each in delays] if trouble == "slow" else []

        link.deliveries = hindered  # type: ignore[method-assign]  # between these two only
    for agent in fleet.agents if trouble == "full" else ():
        assert agent.local is not None
        agent.local.control.member_host.copy_store.panes.limit_bytes = 0
    times: dict[str, dict[int, float]] = {"n": {}, "m": {}}
    terms = {}
    for agent in fleet.agents:
        assert agent.local is not None
        for each in agent.local.control.leadership.masters.values():
            terms[each.term.manifest.name] = each.term
    writing = asyncio.create_task(traffic(fleet, 3.0 * WINDOW_S))
    while not writing.done():
        for name, term in terms.items():
            times[name].setdefault(term.committer.closed, wall_us() / 1e6)
        await asyncio.sleep(0.02)
    fleet.check()
    return times["n"], times["m"]


@pytest.mark.parametrize("trouble", ["cut off", "slow", "full"])
def test_a_standby_in_trouble_delays_no_result(trouble: str) -> None:
    shipped, alone = vloop.run(closing_times(trouble))
    both = sorted(shipped.keys() & alone.keys())[1:]
    assert len(both) >= 2
    for index in both:
        assert abs(shipped[index] - alone[index]) < 0.3


async def master_dies() -> tuple[ResultRecord, str, str]:
    fleet, down = await half_a_window("REPLICAS 1 STANDBY ALL LAG '100 ms'")
    at_us, leader = wall_us(), master(fleet)
    down.crash()
    await traffic(fleet, 3.0)
    leader.crash()
    return await record_of(fleet, at_us), down.name, leader.name


def test_the_next_master_requests_the_prefixes_of_open_intervals_again() -> None:
    record, down, leader = vloop.run(master_dies())
    assert set(record.missing) == {down, leader}
    by_agent = {each.agent: each.contributed for each in record.partly}
    assert by_agent[down] >= WINDOW_S / 2 * RATE - 3
    assert by_agent[leader] >= WINDOW_S / 2 * RATE + 3 * RATE - 3


async def no_agent_has_room() -> tuple[str, list[str], int]:
    """Run a fleet whose agents hold no open windows of others.

    Returns the standbys that `why` prints, the agents with a standby, and the number of refused deltas.
    """
    fleet = SimFleet(7, 3)
    await fleet.start()
    for agent in fleet.agents:
        assert agent.local is not None
        agent.local.control.member_host.copy_store.panes.limit_bytes = 0
    await fleet.apply(JOB.format("n", "STANDBY ALL LAG '100 ms'", TUMBLE))
    await traffic(fleet, 30.0)
    leader = master(fleet)
    why = (await leader.ask("why", {"job": "sim/n"})).body
    found = [agent.local.control.standbys() for agent in fleet.agents if agent.local is not None]
    fleet.check()
    stands = [each["jobs"]["sim/n"]["standby"] for each in found if "sim/n" in each["jobs"]]
    return str(why), [each for each in stands if each], sum(each["refused"] for each in found)


def test_where_no_agent_holds_anything_for_others_the_reason_is_named() -> None:
    why, standbys, refused = vloop.run(no_agent_has_room())
    assert "without a standby: " in why
    assert NO_ROOM in why
    assert standbys == []
    assert refused > 0

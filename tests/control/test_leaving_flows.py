"""Agents that leave, as whole agents on virtual time: open windows are complete, nothing waits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.member.hand_over import ALONE
from tests.sim.test_stories import master, traffic
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, until, wall_us
from tests.sim.world.wall import stamp

WINDOW_S, SLIDE_S = 40, 10
JOB = "CREATE JOB sim.n DEADLINE '2 s' {} AS SELECT k, count(*) AS n FROM log GROUP BY {}, k"
TUMBLE = f"TUMBLE(ts, INTERVAL '{WINDOW_S}' SECOND)"
HOP = f"HOP(ts, INTERVAL '{SLIDE_S}' SECOND, INTERVAL '{WINDOW_S}' SECOND)"


def written(fleet: SimFleet, record: ResultRecord) -> int:
    """The lines of an interval in the logs of all agents that are not missing from its record."""
    assert record.start_us is not None
    assert record.end_us is not None
    first, end = stamp(record.start_us), stamp(record.end_us)
    logs = [bytes(agent.log.data) for agent in fleet.agents if agent.name not in record.missing]
    return sum(first <= json.loads(text)["ts"] < end for log in logs for text in log.splitlines())


async def leaves(agent: SimAgent) -> float:
    """`elf leave --now`, and the end of the process; how long it took."""
    began = asyncio.get_running_loop().time()
    reply = await agent.ask("leave", {"now": True, "wait": 30})
    assert (reply.status, reply.body["state"]) == (200, "left"), reply.body
    agent.crash()
    return asyncio.get_running_loop().time() - began


async def left(
    window: str, clause: str = "", *, leader: bool = False, dies: bool = False
) -> list[tuple[ResultRecord, int]]:
    """The records of all windows that were open when an agent left, each with the lines of its members.

    Args:
        window: of the job.
        clause: of the job.
        leader: the agent is the job's master.
        dies: the master dies right afterwards.
    """
    fleet = SimFleet(11, 4)
    await fleet.start()
    await fleet.apply(JOB.format(clause, window))
    await traffic(fleet, 5.0)
    until_s = (wall_us() // 1_000_000 // WINDOW_S + 1) * WINDOW_S - wall_us() / 1e6
    await traffic(fleet, until_s + WINDOW_S / 2)
    leading = master(fleet)
    leaver = leading if leader else next(agent for agent in fleet.agents if agent is not leading)
    at_us = wall_us()
    assert await leaves(leaver) < 5.0
    if dies:
        leading.crash()
    last_us = at_us + (WINDOW_S if window == TUMBLE else WINDOW_S + SLIDE_S) * 1_000_000
    await traffic(fleet, (last_us - wall_us()) / 1e6 + 10)

    async def closed() -> list[ResultRecord]:
        records = [record for record, _ in await fleet.results("sim/n", master(fleet).number)]
        found = [each for each in records if (each.end_us or 0) > at_us >= (each.start_us or 0) + 1_000_000]
        is_last = found and (found[-1].start_us or 0) + SLIDE_S * 1_000_000 > at_us - 1_000_000
        return found if is_last or (found and window == TUMBLE) else []

    found = await until(closed, 120)
    fleet.check()
    return [(record, written(fleet, record)) for record in found]


@pytest.mark.parametrize("clause", ["", "STANDBY ALL"])
def test_the_open_window_of_an_agent_that_leaves_at_once_is_complete(clause: str) -> None:
    ((record, lines),) = vloop.run(left(TUMBLE, clause))
    assert (record.state, record.completeness, record.missing, record.partly) == ("FINAL", 1.0, [], ())
    assert (record.agents_in, record.counts["contributed"]) == (4, lines)


def every_window() -> None:
    """The agent has sealed all its windows before their time, which makes none of them due."""
    records = vloop.run(left(HOP, "HORIZON '2 s'"))
    assert len(records) >= WINDOW_S // SLIDE_S - 1
    for record, lines in records:
        assert (record.state, record.completeness, record.agents_in) == ("FINAL", 1.0, 4)
        assert record.counts["contributed"] == lines


def test_so_is_every_later_window_that_its_panes_belong_to_and_none_is_closed_before_its_end() -> None:
    every_window()


@pytest.mark.parametrize(("leader", "dies"), [(False, True), (True, False)])
def test_the_window_is_complete_under_the_next_master(leader: bool, dies: bool) -> None:
    ((record, lines),) = vloop.run(left(TUMBLE, leader=leader, dies=dies))
    assert len(record.missing) == int(dies)
    assert (record.agents_in, record.counts["contributed"]) == (4 - int(dies), lines)


EVERY_S, LATE_S = 2, 4.0
"""Between two intervals, and how late a record may be; a member that stops to return is waited for 15 s."""


async def left_for_good(now: bool, leader: bool) -> tuple[list[tuple[int, float]], list[ResultRecord]]:
    """`elf leave` in a job with short intervals, and the orderly end of the process.

    Returns each interval with the seconds from its end to its close, and all records.
    """
    fleet = SimFleet(11, 4)
    await fleet.start()
    await fleet.apply(JOB.format("", f"TUMBLE(ts, INTERVAL '{EVERY_S}' SECOND)").replace("'2 s'", "'1 s'"))
    writing = asyncio.create_task(traffic(fleet, 40.0))
    await asyncio.sleep(10.0)
    leading = master(fleet)
    leaver = leading if leader else next(agent for agent in fleet.agents if agent is not leading)
    begun = wall_us() // 1_000_000 // EVERY_S
    closed: dict[int, float] = {}

    async def watch() -> None:
        while not writing.done():
            for agent in fleet.agents:
                if agent.local is not None:
                    for each in agent.local.control.leadership.masters.values():
                        for index in range(begun + len(closed), each.term.committer.closed):
                            closed[index] = wall_us() / 1e6 - (index + 1) * EVERY_S
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    reply = await leaver.ask("leave", {"now": now, "wait": 30})
    assert (reply.status, reply.body["state"]) == (200, "left"), reply.body
    await leaver.stop()
    await writing
    await watching
    records = [record for record, _ in await fleet.results("sim/n", master(fleet).number)]
    fleet.check()
    return sorted(closed.items()), records


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("leader", [False, True])
def test_no_interval_waits_for_an_agent_that_has_left_to_return(now: bool, leader: bool) -> None:
    closed, records = vloop.run(left_for_good(now, leader))
    assert records[-1].agents_expected == 3
    assert {record.state for record in records} == {"FINAL"}
    assert len(closed) > 10
    assert [each for each in closed if each[1] > LATE_S] == []


async def alone() -> dict[str, Any]:
    fleet = SimFleet(3, 1)
    await fleet.start()
    await fleet.apply(JOB.format("", TUMBLE))
    await traffic(fleet, 5.0)
    reply = await fleet.agents[0].ask("leave", {"now": True, "wait": 4})
    fleet.check()
    return reply.body


def test_an_agent_without_another_member_does_not_end_and_states_the_reason() -> None:
    body = vloop.run(alone())
    assert body["state"] == "leaving"
    assert [each["problem"] for each in body["waits_for"]] == [ALONE]

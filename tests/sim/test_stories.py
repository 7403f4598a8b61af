"""The story of an interval, told by whole agents on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from elfmesh.api.web.story import story
from elfmesh.control.causes import AGENT_BYTES
from elfmesh.control.protocol.events import Reply
from tests.sim.world import vloop
from tests.sim.world.agents import SimAgent, SimFleet, line, until, wall_us

JOB = """CREATE JOB sim.n DEADLINE '3 s' AS
SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '2' SECOND), k"""


async def traffic(fleet: SimFleet, seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        for agent in fleet.agents:
            if agent.local is not None:
                agent.log.write(line(wall_us(), "a", 1))
        await asyncio.sleep(0.25)


RESTART_S = 8.0
"""How long an agent takes to be there again; its intervals end every two seconds."""


@pytest.mark.parametrize("paths", ["", "PATHS 3 ACROSS region"])
def test_agents_that_are_restarted_one_after_the_other_are_in_all_records(paths: str) -> None:
    async def main() -> None:
        fleet = SimFleet(2, 5, regions=("ap", "eu", "us", "ap", "eu") if paths else ("",))
        await fleet.start()
        await fleet.apply(JOB.replace("DEADLINE '3 s'", f"DEADLINE '1 s' {paths}"))
        writing = asyncio.create_task(traffic(fleet, 20.0 + 5 * (RESTART_S + 6.0)))
        await asyncio.sleep(20.0)
        for agent in fleet.agents:
            await agent.stop()
            await asyncio.sleep(RESTART_S)
            await agent.start(fleet.seeds(agent))
            await asyncio.sleep(6.0)
        await writing
        await asyncio.sleep(5.0)
        records = [record for record, _ in await fleet.results("sim/n")]
        assert len(records) > 30
        partial = [(record.index, record.missing) for record in records if record.state != "FINAL"]
        assert partial == []
        fleet.check()

    vloop.run(main())


async def story_at(agent: SimAgent, interval: int | None = None) -> Reply:
    return await story(agent.ask, {"job": "sim/n"} | ({} if interval is None else {"interval": interval}))


def master(fleet: SimFleet) -> SimAgent:
    living = ((agent, agent.local) for agent in fleet.agents if agent.local is not None)
    return next(agent for agent, local in living if local.control.leadership.masters)


def of(steps: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [step for step in steps if step["kind"] == kind]


async def lacking_one(seed: int) -> tuple[dict[str, Any], str, str]:
    """The story of an interval in which a member was down, the member, and who led."""
    fleet = SimFleet(seed, 6, fanout=2)
    await fleet.start()
    await fleet.apply(JOB)
    await traffic(fleet, 5.0)
    local = master(fleet).local
    assert local is not None
    (leading,) = local.control.leadership.masters.values()
    spared = {contact.id for contact in leading.term.terms.acceptors} | {master(fleet).id}
    down = next(agent for agent in fleet.agents if agent.id not in spared)
    down.crash()
    writing = asyncio.create_task(traffic(fleet, 12.0))

    async def partial() -> list[int]:
        records = await fleet.results("sim/n", master(fleet).number)
        return [record.index for record, _ in records if record.missing == [down.name]]

    interval = (await until(partial, 60))[0]
    await asyncio.sleep(1.0)  # the watermark reaches the members
    reply = await story_at(next(agent for agent in fleet.agents if agent.local is not None), interval)
    await writing
    fleet.check()
    assert reply.status == 200, reply.body
    return reply.body, down.name, master(fleet).name


@pytest.fixture(scope="module")
def one_story() -> tuple[dict[str, Any], str, str]:
    return vloop.run(lacking_one(4))


def test_the_story_of_an_interval_in_which_a_member_was_down_names_it(
    one_story: tuple[dict[str, Any], str, str],
) -> None:
    found, down, leader = one_story
    assert found["without"] == [{"agent": down, "reason": "does not answer"}]
    assert (found["state"], found["missing"]) == ("FINAL_PARTIAL", [down])
    (decided,) = of(found["steps"], "decided")
    assert (decided["agent"], decided["detail"]) == (leader, f"FINAL_PARTIAL without {down}")
    (published,) = of(found["steps"], "published")
    assert published["agent"] == leader
    assert {step["agent"] for step in of(found["steps"], "sealed")} == {f"a{n:03}" for n in range(6)} - {down}


def test_every_step_stands_behind_its_cause_and_the_published_record_leads_back_to_a_seal(
    one_story: tuple[dict[str, Any], str, str],
) -> None:
    found, _, _ = one_story
    steps = {step["step"]: step for step in found["steps"]}
    places = {name: place for place, name in enumerate(steps)}
    for name, step in steps.items():
        assert places.get(step["cause"], -1) < places[name]
    (published,) = of(found["steps"], "published")
    line_of_causes, step = [published["kind"]], published
    while step["cause"] in steps:
        step = steps[step["cause"]]
        line_of_causes.append(step["kind"])
    assert line_of_causes[:5] == ["published", "accepted", "proposed", "made", "decided"]
    assert {"due", "collected", "received", "sent"} <= set(line_of_causes)
    assert line_of_causes[-1] == "sealed"
    received = of(found["steps"], "received")
    assert received
    for each in received:  # by an agent that has sent it
        sent = steps[each["cause"]]
        assert (sent["kind"], sent["agent"], sent["peer"]) == ("sent", each["peer"], each["agent"])


def test_each_member_closes_the_interval_because_of_the_watermark_of_its_master(
    one_story: tuple[dict[str, Any], str, str],
) -> None:
    found, down, leader = one_story
    (watermark,) = of(found["steps"], "watermark")
    closed = of(found["steps"], "closed")
    assert watermark["agent"] == leader
    assert {step["agent"] for step in closed} == {f"a{n:03}" for n in range(6)} - {down}
    assert watermark["step"] in {step["cause"] for step in closed}
    agent = slice(2 * AGENT_BYTES)  # one that had missed earlier watermarks has it from another step
    assert {step["cause"][agent] for step in closed} == {watermark["step"][agent]}


def test_the_same_seed_gives_the_same_story(one_story: tuple[dict[str, Any], str, str]) -> None:
    assert vloop.run(lacking_one(4)) == one_story


def test_errors_report_why_there_is_no_story() -> None:
    async def main() -> list[Reply]:
        fleet = SimFleet(1, 3)
        await fleet.start()
        unknown = await story_at(fleet.agents[0])
        await fleet.apply(JOB)
        early = await story_at(fleet.agents[0])
        await traffic(fleet, 8.0)
        newest = (await story_at(fleet.agents[0])).body["interval"]["index"]
        return [unknown, early, await story_at(fleet.agents[0], newest + 1000)]

    unknown, early, ahead = vloop.run(main())
    assert [each.status for each in (unknown, early, ahead)] == [404, 409, 404]
    assert "no such job" in unknown.body["error"]
    assert "no interval of this job is closed yet" in early.body["error"]
    assert "no agent has a step of interval" in ahead.body["error"]

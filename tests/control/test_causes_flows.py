"""Rosters, handovers and closed watermarks have the steps of other agents as causes."""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.causes import Step
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.election.test_takeover import closer_than
from tests.control.harness import World
from tests.control.member.support import TEXT

JOB = ids.job_id("shop/top", "local")
FIRST = 1000


def running(agents: int = 4) -> World:
    world = World(agents)
    fill(world, intervals=6)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    return world


def steps(world: World, interval: int) -> dict[str, list[tuple[int, Step]]]:
    """The steps about an interval by kind, with the numbers of their agents."""
    found: dict[str, list[tuple[int, Step]]] = {}
    for agent in world.living:
        for step in agent.control.context.causes.of({JOB}, interval):
            found.setdefault(step.kind, []).append((agent.number, step))
    return found


def test_members_learn_the_closed_watermark_from_the_master_that_published_the_records() -> None:
    world = running()
    found = steps(world, FIRST + 1)
    ((leader, watermark),) = found["watermark"]
    assert leader == world.master().number
    assert watermark.cause in {step.name for _, step in found["published"]}
    assert [number for number, _ in found["closed"]] == [agent.number for agent in world.living]
    assert {step.cause for _, step in found["closed"]} == {watermark.name}


def test_members_take_a_new_version_from_its_roster() -> None:
    world = running()
    assert world.apply(world[0], TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY")).status == 200
    first = world.master().control.leadership.masters[JOB].term.terms.effective
    assert first > FIRST
    leader = world.master().number
    rosters = steps(world, first)["roster"]
    assert {number for number, _ in rosters} == {agent.number for agent in world.living}
    names = {step.name for number, step in rosters if number == leader}
    assert {step.cause for number, step in rosters if number != leader} <= names


def test_a_successor_leads_because_the_master_hands_the_job_over() -> None:
    world = running()
    old = world.master()
    world.add(closer_than(world, JOB), streams={})
    world.run(5.0)
    heir = world.master()
    assert heir is not old
    found = steps(world, heir.control.leadership.masters[JOB].term.terms.closed)
    ((giver, given),) = [(number, step) for number, step in found["handed over"] if number == old.number]
    (offered, *_) = [step for number, step in found["offered"] if number == heir.number]
    (leads,) = [step for number, step in found["leads"] if number == heir.number]
    assert giver == old.number
    assert offered.cause == given.name
    assert (leads.cause, leads.detail) == (offered.name, "epoch 2")
    rosters = found["roster"]
    (own, *_) = [step for number, step in rosters if number == heir.number]
    assert own.cause == leads.name
    assert {step.cause for number, step in rosters if number not in (heir.number, old.number)} == {own.name}

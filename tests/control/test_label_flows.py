"""Labels and their conditions in a fleet: unclean records through jobs that read jobs, and `require`."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.jobs.policy import Policy
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

SKIP = TEXT.replace("'1 s'", "'1 s' ON STRAGGLER SKIP", 1)
READS = "CREATE JOB shop.{} EVERY '10 s' AS SELECT product, SUM(hits) AS hits FROM shop.{} GROUP BY product"
NARROW = TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY")
STRICT = Policy(require={"shop/*": "Async"})


def test_an_unclean_record_makes_those_of_its_readers_and_of_their_readers_unclean() -> None:
    world = World(3)
    assert world.apply(world[0], SKIP).status == 200
    for name, read in (("second", "top"), ("third", "second")):
        assert world.apply(world[0], READS.format(name, read)).status == 200
    fill(world, intervals=3)
    for agent in world.living[:2]:
        agent.seal("clicks", BASE + SLIDE)
    world.run(30.0)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(5.0)
    for job in ("shop/top", "shop/second", "shop/third"):
        found = {record.index: record for record, _ in world.results(world[0], job)}
        assert [index for index, record in found.items() if record.is_clean] == [1001, 1002], job
        assert found[1000].clean is (job == "shop/top"), "a reader states it, because it misses no agent"


@pytest.fixture
def world() -> World:
    world = World(4)
    for agent in world.living:
        agent.control.context.policy = STRICT
    return world


def refused(world: World, reply: Any) -> bool:
    """Whether a reply names each agent as one that refuses."""
    names = [agent.control.context.name for agent in world.living]
    return reply.status == 400 and all(name in str(reply.body) for name in names)


def test_all_members_refuse_a_label_above_the_required_one_and_are_named(world: World) -> None:
    reply = world.apply(world[0], SKIP)
    assert refused(world, reply), reply.body
    assert "its label is Async | Run" in str(reply.body)
    assert world.apply(world[0], TEXT).status == 200


def test_a_member_with_a_requirement_of_its_own_is_the_one_that_is_named() -> None:
    world = World(4)
    world[2].control.context.policy = STRICT
    reply = world.apply(world[0], SKIP)
    assert reply.status == 400
    assert reply.body["error"].startswith("agent-2: its label is")
    assert "Refused by" not in reply.body["hint"]


def test_a_changed_requirement_is_for_the_next_version() -> None:
    """The version that runs goes on, also under another master and after restarts of its members."""
    world = World(4)
    assert world.apply(world[0], SKIP).status == 200
    for agent in world.living:
        agent.control.context.policy = STRICT
    fill(world, intervals=4)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    master: Agent = world.master()
    world.kill(master)
    world.run(5.0)
    world.restart(master)
    master.control.context.policy = STRICT
    world.run(5.0)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(5.0)
    exact(world, world[0])
    update = world.apply(world[0], NARROW.replace("'1 s'", "'1 s' ON STRAGGLER SKIP", 1))
    assert refused(world, update), update.body
    assert world.apply(world[0], NARROW).status == 200, "a version with the label is taken"

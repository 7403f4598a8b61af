"""Voters that leave hand their votes to other agents."""

from __future__ import annotations

import pytest

from tests.control.clicks import BASE, SLIDE, fill
from tests.control.election.test_drain import leads, started
from tests.control.harness import World
from tests.control.member.support import Agent


def voters(world: World) -> list[Agent]:
    cell = leads(world).term.committer.cell
    assert not cell.value.former
    return [world.agents[contact.id] for contact in cell.value.acceptors]


@pytest.mark.parametrize(("agents", "leavers"), [(6, 3), (4, 3), (3, 2)])
def test_voters_that_leave_one_after_another_take_no_job_along(agents: int, leavers: int) -> None:
    """Two of three that ended without a word were a lost job."""
    world = World(agents)
    fill(world, intervals=30)
    world.apply(world[0])
    sealed = 2
    for number in range(leavers):
        world.seal_all(BASE + sealed * SLIDE)
        world.run(2.0)
        leaver = voters(world)[-1] if number < leavers - 1 else world.master()
        token = world.request(leaver, "leave")
        world.run(1.0)
        sealed += 6
        world.seal_all(BASE + sealed * SLIDE)
        world.run(30.0)
        assert leaver.replies[token].body["state"] == "left"
        assert leaver not in voters(world)
        assert len(voters(world)) == min(3, agents - number - 1)
        world.kill(leaver)
        world.run(10.0)
    world.seal_all(BASE + 30 * SLIDE)
    world.run(10.0)
    found = world.results(world.master())
    assert [record.index for record, _ in found] == list(range(1000, 1030))
    assert {record.state for record, _ in found} == {"FINAL"}


def test_a_voter_leaves_only_when_the_register_has_settled_and_is_not_called_back() -> None:
    world, _ = started(5)
    leaver = next(agent for agent in voters(world) if agent is not world.master())
    world.seal_all(BASE + 8 * SLIDE)
    token = world.request(leaver, "leave", {"wait": 1.0})
    world.run(1.5)
    assert leaver.replies[token].body["waits_for"] == [{"job": "shop/top", "paused": False}]
    world.run(20.0)
    assert leaver not in voters(world)
    assert len(voters(world)) == 3
    world.kill(next(agent for agent in voters(world) if agent is not world.master()))
    world.run(90.0)
    assert leaver not in voters(world), "it is there, and is about to go"
    assert len(voters(world)) == 3


def test_the_only_voter_of_many_hands_its_vote_to_another_and_the_last_agent_just_goes() -> None:
    world = World(1)
    world.apply(world[0])
    world.add(1)
    world.run(10.0)
    first = voters(world)[0]
    assert voters(world) == [first]
    token = world.request(first, "leave")
    for at in range(1, 8):
        world.seal_all(BASE + at * SLIDE)
        world.run(3.0)
    assert first.replies[token].body["state"] == "left"
    world.kill(first)
    world.run(10.0)
    (last,) = world.living
    assert voters(world) == [last]
    token = world.request(last, "leave")
    for at in range(8, 16):
        world.seal_all(BASE + at * SLIDE)
        world.run(3.0)
    assert last.replies[token].body["state"] == "left"

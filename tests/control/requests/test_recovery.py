"""A job goes on with other voters when an operator accepts the loss; old voters that come back follow it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.closing.eviction import EVICT_S
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import generation
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.requests.recovery import with_newest_roster
from tests.control.clicks import BASE, SLIDE
from tests.control.member.support import Agent
from tests.control.partition import SplitWorld
from tests.control.register.support import TERMS, A, B
from tests.control.register.test_lost_votes import go_on, led, rot, running, voters
from tests.control.requests.test_no_majority import without_two

JOB = ids.job_id("shop/top", "local")


def recovered(world: SplitWorld, number: int | None = None) -> dict[str, object]:
    asked = world.living[0] if number is None else world[number]
    reply = world.ask(asked, "recover", {"job": "shop/top", "accept_loss": True})
    assert reply.status == 200, reply.body
    assert reply.body["state"] == "recovered"
    return dict(reply.body)


def one_master(world: SplitWorld) -> None:
    """No agent ever led the job in an epoch of another, and one agent leads it now."""
    assert len([agent for agent in world.living if JOB in agent.control.leadership.masters]) == 1


def _away(world: SplitWorld, *, master: bool = True) -> list[str]:
    """Two of three voters are killed, then the job is recovered; what people call them."""
    leads = world.master()
    others = [agent for agent in voters(world) if agent is not leads]
    gone = [leads, others[0]] if master else others
    for agent in gone:
        world.kill(agent)
    go_on(world, 6, 45.0)
    recovered(world)
    go_on(world, 10, 60.0)
    return sorted(f"agent-{agent.number}" for agent in gone)


def _new(world: SplitWorld) -> list[ResultRecord]:
    """The records of the numbering that began."""
    return [record for record, _ in world.results(world.living[0], limit=100)]


def test_nothing_is_changed_while_a_majority_answers_or_the_operator_does_not_accept_the_loss() -> None:
    world = running()
    reply = world.ask(world[0], "recover", {"job": "shop/top", "accept_loss": True})
    assert (reply.status, reply.body["error"]) == (
        409,
        "a majority of the agents that vote on the job answers",
    )
    world, _ = without_two()
    reply = world.ask(world.living[0], "recover", {"job": "shop/top"})
    assert reply.body["state"] == "no majority"
    assert reply.body["results"] == {"latest": 1000, "voted": 1001}
    assert reply.body["may_be_lost"]["intervals"] == [1002, None]
    assert [voter["state"] for voter in reply.body["voters"]].count("does not answer") == 2
    world.run(30.0)
    assert led(world) == {}


@pytest.mark.parametrize("master", [True, False], ids=["its master is gone", "its master is left"])
@pytest.mark.parametrize("agents", [3, 5])
def test_a_job_goes_on_with_the_agents_that_are_left(agents: int, master: bool) -> None:
    world, gone = without_two(agents, master=master)
    reported = recovered(world)
    go_on(world, 40, 60.0)
    one_master(world)
    leads = world.master().control.leadership.masters[JOB]
    assert generation(leads.term.epoch) == 1
    assert leads.term.manifest.incarnation == reported["recovered"]
    assert not set(voters(world)) & set(gone)
    old = [record for record, _ in world.results(world.living[0], incarnation=reported["incarnation"])]
    found = _new(world)
    assert [each.index for each in old[:2]] == [1000, 1001]
    assert len(found) > 10
    for one, other in pairwise([*old, *found]):
        assert other.first == one.index + 1, "the new numbering goes on behind the old one"


@pytest.mark.parametrize("master", [True, False], ids=["its master is gone", "its master is left"])
@pytest.mark.parametrize("agents", [3, 5])
def test_a_member_that_is_away_is_missing_until_it_is_back(agents: int, master: bool) -> None:
    """The new numbering takes over the roster: its records do not say that they are complete (D-10, D-14)."""
    world = running(agents)
    gone = _away(world, master=master)
    without = _new(world)
    assert without
    reported = [(each.state, each.agents_in, each.agents_expected, sorted(each.missing)) for each in without]
    assert reported == [("FINAL_PARTIAL", agents - 2, agents, gone)] * len(without)
    for agent in world.agents.values():
        if not agent.alive:
            world.restart(agent)
    go_on(world, 20, 60.0)
    last = _new(world)[-1]
    assert last.index > without[-1].index
    assert (last.state, last.agents_in, last.agents_expected) == ("FINAL", agents, agents)


def test_a_member_that_stays_away_is_evicted_from_the_new_numbering() -> None:
    world = running(5)
    _away(world)
    world.run(EVICT_S)
    go_on(world, 20, 60.0)
    found = _new(world)
    assert [each.agents_expected for each in (found[0], found[-1])] == [5, 3]
    assert found[-1].state == "FINAL"


def test_the_newest_roster_goes_on_not_the_one_of_the_newest_term() -> None:
    """Who has only heard of a new master holds an old roster under a new epoch."""
    entry = RosterEntry(0, A, "a")
    received = replace(TERMS, epoch=7, version=1, members=(entry,))
    newer = replace(TERMS, epoch=6, version=2, members=(entry, RosterEntry(1, B, "b")))
    alien = replace(newer, version=9, manifest=replace(newer.manifest, incarnation="other"), members=())
    found = with_newest_roster(received, [newer, alien])
    assert (found.members, found.epoch) == (newer.members, received.epoch)


def test_an_agent_that_has_left_is_not_expected_by_the_new_numbering() -> None:
    world = running(6)
    leaver = next(agent for agent in world.living if agent not in voters(world))
    world.request(leaver, "leave")
    go_on(world, 6, 30.0)
    world.kill(leaver)
    _away(world)
    assert {each.agents_expected for each in _new(world)} == {5}


def test_old_voters_that_come_back_follow_the_new_numbering() -> None:
    world, gone = without_two(5)
    reported = recovered(world)
    go_on(world, 20, 20.0)
    for agent in gone:
        world.restart(agent)
    world.run(120.0)
    one_master(world)
    assert world.master().control.leadership.masters[JOB].term.manifest.incarnation == reported["recovered"]
    for agent in gone:
        member = agent.control.member_host.members.get(JOB)
        assert member is None or member.manifest.incarnation == reported["recovered"]


def test_old_voters_that_led_on_elsewhere_yield_when_the_sides_meet() -> None:
    world = running(5)
    cut = voters(world)[:2]
    world.split(cut)
    go_on(world, 6, 45.0)
    left = next(agent for agent in world.living if agent not in cut and agent in voters_before(world, cut))
    reported = recovered(world, left.number)
    go_on(world, 8, 20.0)
    leading = [agent.control.leadership.masters[JOB] for agent in world.living if agent.masters]
    assert len(leading) == 2, "one on each side: the loss that was accepted"
    assert len({master.term.epoch for master in leading}) == 2
    world.heal()
    world.run(120.0)
    one_master(world)
    assert world.master().control.leadership.masters[JOB].term.manifest.incarnation == reported["recovered"]


def voters_before(world: SplitWorld, cut: list[Agent]) -> list[Agent]:
    """Who votes by what these agents know."""
    value = cut[0].control.leadership.registers.acceptors.vote(JOB).value
    assert value is not None
    return [world.agents[contact.id] for contact in value.value.acceptors]


def test_a_register_of_one_whose_votes_are_lost_is_recovered() -> None:
    world = running(1)
    world.kill(world[0])
    rot(world[0])
    world.restart(world[0])
    world.run(45.0)
    recovered(world)
    go_on(world, 8, 30.0)
    assert led(world) == {"shop/top": 1}
    world.kill(world[0])
    world.restart(world[0])
    go_on(world, 10, 30.0)
    assert led(world) == {"shop/top": 1}


@pytest.mark.parametrize("seed", [*range(6), 105, 126])
def test_recoveries_kills_and_returns_in_any_order_leave_one_master_to_an_epoch(seed: int) -> None:
    rng = random.Random(seed)
    world, gone = without_two(rng.choice([3, 4, 5]), master=rng.random() < 0.5)
    leaders: dict[int, set[bytes]] = {}

    def look(seconds: float) -> None:
        end = world.now + seconds
        while world.now < end:
            world.run(0.05)
            for agent in world.agents.values():
                if agent.alive and (leads := agent.control.leadership.masters.get(JOB)) is not None:
                    leaders.setdefault(leads.term.epoch, set()).add(agent.me.id)

    world.request(rng.choice(world.living), "recover", {"job": "shop/top", "accept_loss": True})
    look(rng.choice([0.5, 1.5, 5.0]))
    for agent in gone:
        world.restart(agent)
        look(rng.uniform(0.0, 3.0))
    for agent in list(world.living):
        agent.seal("clicks", BASE + 9 * SLIDE)
    look(20.0)
    victim = rng.choice(world.living)
    world.kill(victim)
    look(5.0)
    world.restart(victim)
    look(100.0)
    one_master(world)
    assert all(len(agents) == 1 for agents in leaders.values()), leaders


@pytest.mark.parametrize("master", [True, False], ids=["its master is gone", "its master is left"])
def test_a_job_is_recovered_as_soon_as_the_list_shows_that_it_has_no_majority(master: bool) -> None:
    """One truth: what is listed without a majority may be recovered, and nothing else."""
    world = running()
    leads = world.master()
    others = [agent for agent in voters(world) if agent is not leads]
    for agent in [leads, others[0]] if master else others:
        world.kill(agent)
    (left,) = world.living
    left.seal("clicks", 10**18)

    def listed() -> bool:
        return [row["state"] for row in world.ask(left, "list").body["jobs"]] == ["no majority"]

    for _ in range(400):
        world.run(0.1)
        before = listed()
        reply = world.ask(left, "recover", {"job": "shop/top"})
        assert reply.status == 200 or not before, reply.body
        if reply.status == 200:
            assert listed()
            return
    pytest.fail("it is never listed")

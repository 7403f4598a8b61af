"""Who may found the register of a job: never a part of the fleet that takes itself for the whole (D-4)."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.register_value import RegisterValue, generation
from elfmesh.control.protocol.events import ClientRequest, Persist, Reply
from elfmesh.control.protocol.messages import Answered, Submit
from elfmesh.control.register.first_acceptors import FEW_VOTERS, NOT_JOINED, SILENT, Survey
from elfmesh.control.register.members import GONE_S
from elfmesh.control.replicas.known_peers import FORGOTTEN_S, KIND, MET_MAX, KnownPeers
from elfmesh.control.replicas.terms_query import ALL_NEAR
from elfmesh.control.requests.requests import REQUEST_S
from elfmesh.machine import Contact, Received, Send, Tick
from elfmesh.overlay.events import Joined, PeerUp, Route
from tests.control.clicks import fill
from tests.control.contexts import new_context
from tests.control.harness import HOP_S
from tests.control.member.support import TEXT, Agent, agent_id
from tests.control.partition import SplitWorld
from tests.control.register.test_lost_votes import go_on

JOB = ids.job_id("shop/top", "local")


def acquainted(agents: int) -> SplitWorld:
    """A world in which all agents have met each other, as in an overlay of a few agents."""
    world = SplitWorld(agents)
    meet(world)
    return world


def meet(world: SplitWorld) -> None:
    for agent in world.living:
        for other in world.living:
            world.post(HOP_S, agent, PeerUp(other.me))
    world.run(1.0)


def surveyed(world: SplitWorld, agent: Agent) -> Survey:
    found: list[Survey] = []
    agent.control.context.after(0.0, lambda: agent.control.leadership.first.survey(JOB, found.append))
    world.run(5.0)
    return found[0]


def nearest(world: SplitWorld, count: int) -> list[Agent]:
    return sorted(world.agents.values(), key=lambda agent: ids.distance(agent.me.id, JOB))[:count]


def applied_on_both_sides() -> tuple[int, int, int]:
    """A job is applied on both sides of a partition, by two and by three: the answers, and its masters."""
    world = acquainted(5)
    fill(world, intervals=2)
    most, few = nearest(world, 5)[:3], nearest(world, 5)[3:]
    world.split(few)
    world.run(2.0)
    answers = world.apply(few[0]).status, world.apply(most[0]).status
    world.run(5.0)
    masters = sum("shop/top" in agent.masters for agent in world.agents.values())
    return *answers, masters


def test_of_two_sides_of_a_partition_only_the_larger_one_founds_a_job() -> None:
    assert applied_on_both_sides() == (503, 200, 1)


def test_counting_only_agents_that_are_there_founds_the_register_on_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = KnownPeers.nearest

    def present(self: KnownPeers, key: bytes, count: int) -> list[Contact]:
        return [each for each in original(self, key, MET_MAX) if not self.away_s(each.id)][:count]

    monkeypatch.setattr(KnownPeers, "nearest", present)
    assert applied_on_both_sides() == (200, 200, 2)


def test_the_smaller_side_reports_why_and_finds_the_job_after_the_partition() -> None:
    world = acquainted(5)
    first, second, *most = nearest(world, 5)
    world.split([first, second])
    world.run(2.0)
    assert world.apply(first).body["error"] == SILENT
    assert world.apply(most[0]).body["error"] == FEW_VOTERS
    world.run(GONE_S)
    assert world.apply(first).body["error"] == SILENT
    assert world.apply(most[0]).body["state"] == "new"
    world.heal()
    world.run(5.0)
    assert world.apply(first).body["state"] == "unchanged"
    assert world.master()


def test_an_agent_that_is_restarted_alone_remembers_that_it_was_not() -> None:
    world = acquainted(3)
    alone, *others = world.living
    for other in others:
        world.kill(other)
    world.run(2.0)
    world.restart(alone)
    world.run(2.0)
    assert world.apply(alone).body["error"] == SILENT
    world.restart(others[0])
    world.run(2.0)
    assert world.apply(alone).body["state"] == "new", "two of three"


def test_an_agent_that_was_away_for_long_is_not_counted_and_the_rest_founds_the_job() -> None:
    world = acquainted(2)
    world.kill(world[1])
    world.run(5.0)
    assert world.apply(world[0]).status == 503
    world.run(FORGOTTEN_S)
    assert world.apply(world[0]).body["state"] == "new"
    assert (KIND, agent_id(1)) not in world[0].disk


def test_an_agent_that_has_not_joined_founds_nothing() -> None:
    world = SplitWorld(1)
    early = Agent(world.post, 7, {"clicks": None}, {}).control
    job, _ = read_job(TEXT, source="query")
    manifest = new_manifest(job, TEXT, "local", created=0, incarnation="i", signed=b"")
    effects = early.step(Received(world[0].me, Submit(manifest, world[0].me, 5, False, 0, False), b""), 1.0)
    answers = [each for each in effects if isinstance(each, Send) and isinstance(each.message, Answered)]
    assert len(answers) == 1
    assert NOT_JOINED.encode() in answers[0].payload
    assert not early.leadership.masters


@pytest.mark.parametrize("joins_after_s", [REQUEST_S - 1, REQUEST_S + 1])
def test_a_delete_that_waited_for_its_agent_to_join_is_obeyed_only_while_its_client_waits(
    joins_after_s: float,
) -> None:
    early = Agent(SplitWorld(1).post, 7, {"clicks": None}, {}).control
    body = {"job": "shop/top", "creator": "local"}
    effects = early.step(ClientRequest(5, "delete", body), 1.0)
    effects += early.step(Tick(), 1.0 + min(joins_after_s, REQUEST_S))
    answers = [each for each in effects if isinstance(each, Reply)]
    assert [(each.token, each.status) for each in answers] == [(5, 503)] * (joins_after_s > REQUEST_S)
    effects = early.step(Joined(), 1.0 + joins_after_s)
    obeyed = any(isinstance(each, Route) for each in effects)
    assert obeyed == (joins_after_s < REQUEST_S)


def test_an_agent_lost_a_moment_ago_still_votes_so_that_all_founders_name_the_same_acceptors() -> None:
    world = acquainted(5)
    first, second, third = nearest(world, 3)
    world.kill(second)
    world.run(2.0)
    assert surveyed(world, first).acceptors == (first.me, second.me, third.me)
    assert surveyed(world, world.living[-1]).acceptors == (first.me, second.me, third.me)
    world.kill(third)
    world.run(2.0)
    assert surveyed(world, first).problem == FEW_VOTERS, "of the three one is there"
    world.run(GONE_S)
    later = surveyed(world, first)
    assert later.acceptors == tuple(agent.me for agent in nearest(world, 5) if agent.alive)


def test_where_the_job_is_known_the_agents_that_its_terms_name_vote_though_they_are_away() -> None:
    world = acquainted(9)
    world.apply(world[0])
    world.run(2.0)
    master = world.master().control.leadership.masters[JOB]
    voters = master.term.committer.cell.value.acceptors
    for voter in voters:
        world.kill(world.agents[voter.id])
    world.run(GONE_S + FORGOTTEN_S)
    for agent in world.living:
        assert surveyed(world, agent).acceptors == voters


def test_a_job_that_is_deleted_is_begun_again_by_the_agents_that_voted_on_it() -> None:
    world = acquainted(5)
    world.apply(world[0])
    world.run(2.0)
    assert world.ask(world[1], "delete", {"job": "shop/top"}).status == 200
    world.run(3.0)
    assert world.apply(world[2]).body["state"] == "new"
    master = world.master().control.leadership.masters[JOB]
    assert master.term.committer.cell.value.acceptors == tuple(agent.me for agent in nearest(world, 3))
    assert master.term.epoch > 1


def test_the_memory_is_bounded_and_damage_in_it_is_counted() -> None:
    context = Context(Contact(agent_id(0), "sim", 1), "a", random.Random(1), lambda topic: {})
    known = KnownPeers(context)
    for number in range(1, MET_MAX + 1):
        known.met(Contact(agent_id(number), "sim", number))
    known.lost(agent_id(5))
    context.out.clear()
    known.met(Contact(agent_id(MET_MAX + 1), "sim", 1))
    assert [(effect.key, bool(effect.data)) for effect in context.out if isinstance(effect, Persist)] == [
        (agent_id(MET_MAX + 1), True),
        (agent_id(5), False),
    ]
    assert len(known.nearest(JOB, 2 * MET_MAX)) == MET_MAX + 1
    known.restored(agent_id(9999), b"\xff")
    assert context.stats["control.malformed"] == 1
    assert agent_id(9999) not in {contact.id for contact in known.nearest(JOB, 2 * MET_MAX)}


def leaves(world: SplitWorld, agent: Agent) -> None:
    assert world.ask(agent, "leave").body["state"] == "left"
    world.kill(agent)


def test_most_of_a_fleet_may_leave_and_the_others_found_jobs_at_once() -> None:
    world = acquainted(7)
    for agent in nearest(world, 7)[:5]:
        leaves(world, agent)
    world.run(5.0)
    assert world.apply(world.living[0]).body["state"] == "new"


def test_an_agent_that_leaves_while_it_is_cut_off_is_counted_on_the_other_side() -> None:
    world = acquainted(5)
    few, most = nearest(world, 5)[:2], nearest(world, 5)[2:]
    world.split(most)
    world.run(2.0)
    leaves(world, most[0])
    world.run(2.0)
    assert surveyed(world, most[1]).problem in (SILENT, FEW_VOTERS), "two of four"
    world.heal()
    world.split(few)
    world.run(2.0)
    assert surveyed(world, few[0]).problem == SILENT, "two of five, as they know"


def test_a_farewell_that_comes_in_a_later_boot_makes_no_agent_forgotten() -> None:
    """It would be counted out of the majority while it is there."""
    context = new_context(0)
    known, other = KnownPeers(context), Contact(agent_id(1), "sim", 2, 3)
    again = replace(other, incarnation=4)
    known.met(again)
    known.on_departed(other)
    assert known.nearest(JOB, 9) == sorted((context.me, again), key=lambda each: ids.distance(each.id, JOB))
    known.on_departed(again)
    known.on_departed(other)
    known.met(again)
    assert known.nearest(JOB, 9) == [context.me], "the older word takes nothing back"


def test_late_messages_do_not_bring_back_an_agent_that_has_left_but_another_boot_does() -> None:
    context = Context(Contact(agent_id(0), "sim", 1), "a", random.Random(1), lambda topic: {})
    known = KnownPeers(context)
    other = Contact(agent_id(1), "sim", 2, 3)
    known.met(other)
    known.on_departed(other)
    for late in (other, replace(other, incarnation=2)):
        known.met(late)
        known.received(late.id)
        known.lost(late.id)
        assert known.nearest(JOB, 9) == [context.me]
    known.met(replace(other, incarnation=4))
    assert len(known.nearest(JOB, 9)) == 2
    known.lost(other.id)
    assert len(known.nearest(JOB, 9)) == 2, "it only crashed this time"


def test_what_was_on_its_way_since_before_its_senders_end_does_not_count_it_for_ever() -> None:
    """The overlay loses no agent twice: when most of a fleet had left, the others founded nothing any
    more."""
    context = new_context(0)
    known, left, stranger = (
        KnownPeers(context),
        Contact(agent_id(1), "sim", 2),
        Contact(agent_id(2), "sim", 3),
    )
    known.met(left)
    known.received(left.id)
    assert known.there() == [left]
    known.lost(left.id)
    context.now = 100.0
    known.received(left.id)
    known.answered(stranger)
    assert known.there() == [], "only the overlay knows who is there: it says when that ends"
    assert known.away_s(left.id) == known.away_s(stranger.id) == 0.0, "it may have spoken just now"
    context.now = 100.0 + FORGOTTEN_S - 1
    assert len(known.nearest(JOB, 9)) == 3
    known.met(stranger)
    known.answered(stranger)
    context.now = 100.0 + FORGOTTEN_S
    assert known.nearest(JOB, 9) == sorted(
        (context.me, stranger), key=lambda each: ids.distance(each.id, JOB)
    )
    assert known.there() == [stranger]


def test_half_of_the_known_is_no_majority() -> None:
    world = acquainted(4)
    for agent in nearest(world, 4)[2:]:
        world.kill(agent)
    world.run(2.0)
    assert surveyed(world, nearest(world, 1)[0]).problem == SILENT


def grown(
    voters: tuple[int, ...] = (2, 4, 5), later: tuple[int, ...] = (0, 1), agents: int = 8
) -> tuple[SplitWorld, list[Agent]]:
    """Three agents vote on a job until it is deleted, then others join: rank 0 is the nearest to the job."""
    numbers = sorted(range(agents), key=lambda number: ids.distance(agent_id(number), JOB))
    world = SplitWorld()
    old = [world.add(numbers[rank]) for rank in voters]
    meet(world)
    world.apply(old[0])
    fill(world, intervals=8)
    for intervals in range(1, 6):  # each has a ballot of its own
        go_on(world, intervals, 2.0)
    assert world.ask(old[1], "delete", {"job": "shop/top"}).status == 200
    world.run(3.0)
    for rank in later:
        world.add(numbers[rank])
    meet(world)
    return world, old


def goes_on(world: SplitWorld, intervals: int) -> RegisterValue:
    """What the register of the job says once these intervals are closed too."""
    for each in (intervals - 1, intervals):
        go_on(world, each, 20.0)
    value = world.master().control.leadership.masters[JOB].term.committer.cell.value
    assert value.latest == 1000 + intervals - 1
    return value


def test_a_vote_that_a_job_is_over_does_not_end_the_one_that_is_begun_again() -> None:
    """Two agents that are nearer by now chose it without its old voters, whose votes were higher."""
    world, old = grown()
    assert world.apply(world.living[-1]).body["state"] == "new"
    value = goes_on(world, 7)
    assert {contact.id for contact in value.acceptors} == {agent.me.id for agent in old}
    assert generation(value.epoch) == 0, "the register goes on"


def test_those_that_voted_on_the_end_and_are_not_near_any_more_are_asked_too() -> None:
    """Else they would count as away for as long as they are there, and the job could not begin again."""
    far = (ALL_NEAR - 2, ALL_NEAR + 1, ALL_NEAR + 2)
    world, old = grown(far, tuple(rank for rank in range(ALL_NEAR + 3) if rank not in far), agents=16)
    assert world.apply(world.living[-1]).body.get("state") == "new"
    value = goes_on(world, 7)
    assert {contact.id for contact in value.acceptors} == {agent.me.id for agent in old}
    assert generation(value.epoch) == 0, "the register goes on"


def test_while_most_that_voted_on_its_end_are_away_a_job_begins_only_after_a_while_and_with_others() -> None:
    world, (old, *away) = grown()
    for agent in away:
        world.kill(agent)
    world.run(2.0)
    assert world.apply(old).body["error"] == FEW_VOTERS
    world.run(GONE_S)
    assert world.apply(old).body["state"] == "new"
    value = goes_on(world, 7)
    assert {contact.id for contact in value.acceptors} == {agent.me.id for agent in nearest(world, 3)}
    assert generation(value.epoch) == 1, "votes of the old register are void"
    for agent in away:
        world.restart(agent)
    world.run(5.0)
    world.kill(nearest(world, 1)[0])
    world.run(2 * GONE_S)
    again = goes_on(world, 9)
    assert (again.incarnation, len(again.acceptors)) == (value.incarnation, 3)
    assert {contact.id for contact in again.acceptors} & {agent.me.id for agent in away}


def test_where_no_agent_that_voted_on_the_end_is_there_a_job_begins_in_the_next_generation() -> None:
    world, old = grown()
    for number in range(8):
        if agent_id(number) not in world.agents:
            world.add(number)
    meet(world)
    assert world.apply(old[0]).body["state"] == "new"
    assert world.ask(old[1], "delete", {"job": "shop/top"}).status == 200
    world.run(3.0)
    voted = [agent for agent in world.living if vote(agent)]
    assert {agent.number for agent in voted} == {agent.number for agent in old}
    for agent in voted:
        world.kill(agent)
    world.run(GONE_S)
    asked = world.living[-1]
    assert world.apply(asked).body["state"] == "new"
    world.run(5.0)
    value = world.master().control.leadership.masters[JOB].term.committer.cell.value
    assert generation(value.epoch) == 1
    assert not {contact.id for contact in value.acceptors} & {agent.me.id for agent in old}


def vote(agent: Agent) -> bool:
    return agent.control.leadership.registers.acceptors.vote(JOB).value is not None

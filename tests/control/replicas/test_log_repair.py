"""Records that damage took from a copy of a results log are fetched from other voters, or declared lost."""

from __future__ import annotations

import pytest

from elfmesh import ids
from elfmesh.control.closing.outcomes import serve_outcomes
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages_safety import AskFates, Fates
from elfmesh.control.replicas.log_repair import SILENT_S
from elfmesh.machine import Send, Tick
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.control.member.support import Agent, read_log

JOB = ids.job_id("shop/top", "local")
CLOSED = [1000, 1001, 1002, 1003, 1004, 1005]


def running(agents: int) -> World:
    """A job with six records."""
    world = World(agents)
    fill(world, intervals=8)
    world.apply(world[0])
    for interval in range(1, 7):
        world.seal_all(BASE + interval * SLIDE)
        world.run(1.0)
    return world


def voters(world: World) -> list[Agent]:
    """Who votes on the job, its master first."""
    master = world.master()
    contacts = master.control.leadership.masters[JOB].term.committer.cell.contacts
    found = [world.agents[contact.id] for contact in contacts]
    return sorted(found, key=lambda agent: agent is not master)


def voters_of(world: World, agent: Agent) -> list[Agent]:
    """Who votes on the job by what an agent remembers, also where no agent leads."""
    terms, _ = agent.control.leadership.held(JOB)
    assert terms is not None
    return [world.agents[contact.id] for contact in terms.acceptors]


def held(agent: Agent) -> list[int]:
    return [record.index for record, _ in agent.results[JOB][1]]


def restarted(world: World, *agents: Agent, seconds: float = 30.0) -> None:
    for agent in agents:
        world.kill(agent)
    world.run(1.0)
    for agent in agents:
        world.restart(agent)
    world.run(seconds)


def lost(world: World) -> list[tuple[int, int, float, str]]:
    """What a reader gets that is declared lost."""
    found = world.results(world.living[0])
    return [(each.first, each.index, each.completeness, each.state) for each, _ in found if each.lost]


@pytest.mark.parametrize("gone", [(1002,), (1001, 1002), (1001, 1003), (1004,)])
@pytest.mark.parametrize("who", range(3))
def test_a_voter_that_lacks_records_fetches_them(gone: tuple[int, ...], who: int) -> None:
    world = running(4)
    agent = voters(world)[who]
    before = list(agent.results[JOB][1])
    agent.damage(JOB, *gone)
    restarted(world, agent)
    assert agent.results[JOB][1][: len(before)] == before
    assert [record.index for record, _ in world.results(agent)] == CLOSED
    assert lost(world) == []


@pytest.mark.parametrize("who", range(3))
def test_the_end_of_a_log_that_is_behind_its_vote_is_fetched(who: int) -> None:
    """A vote says which records the log has; what comes next must not go in front of them."""
    world = running(4)
    agent = voters(world)[who]
    agent.damage(JOB, 1003, 1004, 1005)
    for voter in voters(world):
        world.kill(voter)
    world.run(1.0)
    for voter in voters_of(world, agent):
        world.restart(voter)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(30.0)
    assert [record.index for record, _ in world.results(agent)] == [*CLOSED, 1006, 1007]
    assert held(agent)[:6] == CLOSED
    assert lost(world) == []


def test_a_record_that_no_voter_has_is_declared_lost_and_the_others_are_there() -> None:
    world = running(4)
    voting = voters(world)
    voting[0].damage(JOB, 1001, 1002, 1003)
    voting[1].damage(JOB, 1002)
    voting[2].damage(JOB, 1002, 1003)
    restarted(world, *voting)
    assert [record.index for record, _ in world.results(voting[1])] == CLOSED
    assert lost(world) == [(1002, 1002, 0.0, "SKIPPED")]
    assert [held(agent)[:5] for agent in voting] == [CLOSED[:5]] * 3
    assert all(not agent.holes(JOB) for agent in voting)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert [record.index for record, _ in world.results(voting[1])] == [*CLOSED, 1006, 1007]


def test_an_agent_alone_declares_what_it_has_lost_and_goes_on() -> None:
    world = running(1)
    world[0].damage(JOB, 1000, 1001, 1003)
    restarted(world, world[0])
    assert lost(world) == [(1003, 1003, 0.0, "SKIPPED")]
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert held(world[0])[-1] == 1007


def test_an_agent_alone_whose_whole_log_is_gone_declares_the_loss_and_goes_on() -> None:
    world = running(1)
    world[0].damage(JOB, *CLOSED)
    restarted(world, world[0])
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert [record.index for record, _ in world.results(world[0])] == [1004, 1005, 1006, 1007]
    assert [(last, completeness) for _, last, completeness, _ in lost(world)] == [(1004, 0.0)]


def test_no_client_reads_over_a_hole_while_a_voter_is_away_that_may_have_the_record() -> None:
    world = running(4)
    voting = voters(world)
    away = voting[2]
    for agent in voting[:2]:
        agent.damage(JOB, 1002)
    world.kill(away)
    restarted(world, *voting[:2])
    reply = world.ask(voting[0], "results", {"job": "shop/top", "limit": 1000})
    assert reply.body["next"] == 1002
    reply = world.ask(voting[0], "results", {"job": "shop/top", "from": 1002})
    assert (reply.status, reply.body["error"]) == (
        503,
        "interval 1002 is damaged on this agent's disk and not repaired yet",
    )
    world.restart(away)
    world.run(20.0)
    assert [record.index for record, _ in world.results(voting[0])] == CLOSED
    assert lost(world) == []


def test_a_voter_that_stays_away_cannot_hold_up_a_loss_for_ever() -> None:
    world = running(4)
    voting = voters(world)
    for agent in voting[:2]:
        agent.damage(JOB, 1002)
    world.kill(voting[2])
    restarted(world, *voting[:2], seconds=SILENT_S + 30)
    assert lost(world) == [(1002, 1002, 0.0, "SKIPPED")]
    assert [record.index for record, _ in world.results(voting[0])] == CLOSED


def test_a_strict_read_of_a_range_reports_a_loss_in_it() -> None:
    world = running(1)
    world[0].damage(JOB, 1002)
    restarted(world, world[0])
    whole = {"job": "shop/top", "strict": True}
    assert world.ask(world[0], "results", {**whole, "from": 1003}).status == 200
    assert world.ask(world[0], "results", {**whole, "to": 1001}).status == 200
    reply = world.ask(world[0], "results", whole)
    assert reply.status == 410
    assert reply.body["error"].startswith("interval 1002 is lost")


def test_damage_that_a_read_finds_is_filled_while_the_agent_leads() -> None:
    world = running(4)
    master = world.master()
    before = list(master.results[JOB][1])
    master.damage(JOB, 1001, 1003)
    incarnation = master.results[JOB][0]
    world.post(0.0, master, ctl.LogDamaged(ctl.LogInfo(JOB, incarnation, 1005, holes=master.holes(JOB))))
    world.run(5.0)
    assert master.results[JOB][1] == before


def test_the_newest_record_is_taken_from_the_register_where_no_other_log_has_it_yet() -> None:
    world = running(4)
    master = world.master()
    before = list(master.results[JOB][1])
    assert all(held(agent)[-1] < 1005 for agent in voters(world)[1:])
    master.damage(JOB, 1004, 1005)
    incarnation = master.results[JOB][0]
    world.post(0.0, master, ctl.LogDamaged(ctl.LogInfo(JOB, incarnation, 1005, holes=((1004, 1006),))))
    world.run(5.0)
    assert master.results[JOB][1] == before
    assert lost(world) == []


def test_a_member_whose_record_is_lost_learns_that_the_outcome_is_unknown() -> None:
    """Its contribution may or may not have been in it: a dead letter that says so, and no count."""
    world = running(4)
    voting = voters(world)
    for agent in voting:
        agent.damage(JOB, 1002)
    restarted(world, *voting)
    master = world.master()
    leading = master.control.leadership.masters[JOB]
    asked = AskFates(JOB, leading.term.manifest.incarnation, 0, (1001, 1002, 1003))
    serve_outcomes(
        master.control.context,
        voting[1].me if voting[1] is not master else voting[2].me,
        asked,
        leading.term.terms,
    )
    effects = master.control.step(Tick(), world.now)
    (read,) = [each for each in effects if isinstance(each, ctl.ReadLog)]
    notified = [
        each.message
        for each in master.control.step(read_log(master, read), world.now)
        if isinstance(each, Send) and isinstance(each.message, Fates)
    ]
    assert [(each.inside, each.unknown) for each in notified] == [((1001, 1003), (1002,))]

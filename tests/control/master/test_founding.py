"""Who founds a job: all agents that are there, also where the fleet and its trees are a moment old."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.control.jobs.terms import Participant
from elfmesh.control.master.founding import FOUNDING_S, FOUNDING_S_MAX, FOUNDING_YOUNG_S, GROWING_S, YOUNG_S
from elfmesh.control.protocol.messages import Announced
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.election.test_drain import leads
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent


def test_an_agent_that_asks_before_the_first_verdicts_is_a_founder_and_no_client_is_answered_before() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.lost = lambda source, target, message: isinstance(message, Announced)
    token = world.request(world[0], "apply", {"text": TEXT})
    world.run(1.0)
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    assert token not in world[0].replies, "the stream hosts have not been heard"
    world.lost = lambda source, target, message: False
    world.run(FOUNDING_S_MAX)
    assert world[0].replies[token].body["expected"] == 4
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    exact(world, world[0])
    assert all(record.agents_expected == 4 for record, _ in world.results(world[0]))


def test_a_young_fleet_is_given_longer_and_an_old_one_answers_at_once() -> None:
    world = World(3)
    began = world.now
    world.apply(world[0])
    assert FOUNDING_YOUNG_S <= world.now - began < FOUNDING_YOUNG_S + 0.5
    old = World(3)
    old.run(YOUNG_S)
    began = old.now
    old.apply(old[0])
    assert FOUNDING_S <= old.now - began < FOUNDING_S + 0.3


def test_a_young_fleet_that_does_not_grow_answers_at_once_until_another_agent_is_met() -> None:
    world = World(3)
    world.run(GROWING_S)
    began = world.now
    world.apply(world[0])
    assert FOUNDING_S <= world.now - began < FOUNDING_S + 0.3
    world.add(3)
    began = world.now
    world.apply(world[0], TEXT.replace("shop.top", "shop.other"))
    assert began < YOUNG_S
    assert world.now - began >= FOUNDING_YOUNG_S


def test_the_first_roster_stays_open_while_member_hosts_arrive_but_not_for_ever() -> None:
    world = World(2)
    token = world.request(world[0], "apply", {"text": TEXT})
    began, number = world.now, 10
    while token not in world[0].replies:
        world.add(number)
        number += 1
        world.run(1.0)
        assert world.now - began < FOUNDING_S_MAX + 3.0
    assert world.now - began >= FOUNDING_S_MAX - 1.0
    described = world.ask(world[0], "describe", {"job": "shop/top"}).body
    founders = [each for each in described["roster"]["agents"] if each["from"] is None]
    assert len(founders) >= 4


def test_a_new_job_with_a_constant_that_no_value_equals_is_refused_and_one_that_runs_goes_on() -> None:
    typed = pa.schema(
        [("product", pa.string()), ("status", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))]
    )
    wrong = TEXT.replace("FROM clicks", "FROM clicks WHERE status = '5xx'")
    world = World()
    for number in range(3):
        world.add(number, streams={"clicks": typed})
    world.run(1.0)
    reply = world.apply(world[0], wrong)
    assert reply.status == 400
    assert "'5xx' is not" in reply.body["error"]
    world.run(1.0)
    assert world.ask(world[0], "list").body["jobs"] == []
    world = World(3)
    assert world.apply(world[0], wrong).status == 200, "only the data shows the types"
    newcomer = world.add(3, streams={"clicks": typed})
    world.run(5.0)
    assert newcomer.workers


@pytest.mark.parametrize("clause", ["PATHS 2 ACROSS rack", "REPLICAS 1 ACROSS rack"])
def test_a_label_that_no_agent_states_is_refused_when_a_job_begins_or_changes(clause: str) -> None:
    world = World(3)
    across = TEXT.replace("DEADLINE", f"{clause} DEADLINE")
    reply = world.apply(world[0], across)
    assert reply.status == 400
    assert "no agent with the job's input states a rack" in reply.body["error"]
    world.run(1.0)
    assert world.ask(world[0], "list").body["jobs"] == []
    assert world.apply(world[0], TEXT).status == 200
    reply = world.apply(world[0], across)
    assert reply.status == 400
    assert "ACROSS rack" in reply.body["error"]
    for refused in (across, across.replace("'10", "'20")):
        dry = world.ask(world[0], "apply", {"text": refused, "dry_run": True})
        assert (dry.status, dry.body["error"]) == (400, reply.body["error"])
    renumbered = world.apply(world[0], across.replace("'10", "'20"))
    assert (renumbered.status, renumbered.body["error"]) == (400, reply.body["error"]), "the job would end"
    described = world.ask(world[0], "describe", {"job": "shop/top"}).body
    assert (described["version"], described["state"]) == (1, "running")


def test_a_verdict_from_before_its_agent_left_gives_it_no_second_number() -> None:
    """The roster would have the agent twice, and intervals of its first number wait a minute for it."""
    world, leaver = leading(4)
    master = leads(world)
    verdicts = verdicts_of(world)
    world.request(leaver, "leave")
    world.run(1.0)
    master.term.founding.on_announced(verdicts)
    entries = [each for each in master.term.book.entries if each.contact.id == leaver.me.id]
    assert [each.until is not None for each in entries] == [True]


def test_a_verdict_gives_no_number_because_it_does_not_name_the_first_interval_of_a_worker() -> None:
    world, _ = leading(4)
    master, newcomer = leads(world), world.add(9)
    verdicts = verdicts_of(world)
    master.term.founding.on_announced(verdicts)
    assert master.term.book.of(newcomer.me.id) is None
    world.run(5.0)
    entry = master.term.book.of(newcomer.me.id)
    assert entry is not None, "it has enrolled"
    assert entry.start > 1003


def leading(agents: int) -> tuple[World, Agent]:
    world = World(agents)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    return world, next(agent for agent in world.living if agent is not world.master())


def verdicts_of(world: World) -> Announced:
    """All agents that are there say that they take part."""
    there = tuple(Participant(agent.me, f"agent-{agent.number}") for agent in world.living)
    term = leads(world).term
    return Announced(term.job, term.epoch, there, (), len(there), "clicks")

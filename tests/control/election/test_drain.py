"""Who leaves says so: its last interval is declared, and no interval misses it (D-14)."""

from __future__ import annotations

import pytest

from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import Leaving, Stop
from elfmesh.control.protocol.messages_succession import Replica
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import Agent


def started(agents: int = 4) -> tuple[World, Agent]:
    world = World(agents)
    return world, begun(world)


def begun(world: World) -> Agent:
    """An agent of a job that does not lead it."""
    fill(world, intervals=8)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    return next(agent for agent in world.living if agent is not world.master())


def states(world: World) -> list[tuple[str, int]]:
    return [(record.state, record.agents_expected) for record, _ in world.results(world.master())]


def until_answered(world: World, agent: Agent, token: int) -> None:
    """Another agent must vote first."""
    for _ in range(30):
        if token not in agent.replies:
            world.run(1.0)


def test_no_interval_misses_an_agent_that_leaves() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(3.0)
    assert token not in leaver.replies, "its last intervals are open"
    world.seal_all(BASE + 8 * SLIDE)
    until_answered(world, leaver, token)
    assert leaver.replies[token].body == {"agent": f"agent-{leaver.number}", "state": "left", "jobs": 1}
    world.kill(leaver)
    world.run(5.0)
    found = states(world)
    assert {state for state, _ in found} == {"FINAL"}
    expected = [number for _, number in found]
    assert expected == sorted(expected, reverse=True)
    assert (expected[0], expected[-1]) == (4, 3)


def test_records_of_a_leaver_for_later_intervals_are_in_no_result() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(2.0)
    world.seal_all(BASE + 8 * SLIDE)
    until_answered(world, leaver, token)
    assert token in leaver.replies
    for record, rows in world.results(world.master()):
        with_it = world.expected(SLIDE)[record.index]
        if record.agents_expected == 4:
            assert rows == with_it
        else:
            assert sum(row["hits"] for row in rows) < sum(row["hits"] for row in with_it)
            assert sum(row["hits"] for row in rows) == record.counts["contributed"]


def test_it_takes_part_in_nothing_new() -> None:
    world, leaver = started()
    world.request(leaver, "leave")
    world.run(1.0)
    answer = world.apply(
        world.master(), "CREATE JOB shop.other EVERY '10 s' AS SELECT count(*) AS n FROM clicks"
    )
    assert answer.body["expected"] == 3


def test_a_question_that_is_lost_is_asked_again_and_a_repeated_one_changes_nothing() -> None:
    world, leaver = started()
    world.request(leaver, "leave")
    world.run(5.0)
    master = next(iter(world.master().control.leadership.masters.values()))
    version = master.term.book.version
    entry = next(each for each in master.term.book.entries if each.contact.id == leaver.me.id)
    assert entry.until is not None
    master.term.members.on_leaving(
        Leaving(master.job, master.term.manifest.incarnation, leaver.me, master.term.epoch, 5000)
    )
    assert master.term.book.version == version


def test_an_agent_without_jobs_leaves_at_once() -> None:
    world = World(2)
    assert world.ask(world[1], "leave").body["jobs"] == 0


def test_a_job_goes_on_when_its_last_agent_but_one_has_left() -> None:
    world = World(2)
    fill(world, intervals=6)
    world.apply(world[0])
    leaver = next(agent for agent in world.living if agent is not world.master())
    world.request(leaver, "leave")
    world.run(1.0)
    world.seal_all(BASE + 6 * SLIDE)
    world.run(3.0)
    world.kill(leaver)
    world.run(3.0)
    assert {state for state, _ in states(world)} == {"FINAL"}


def test_votes_are_handed_over_while_the_last_intervals_are_open() -> None:
    world, _ = started(5)
    leaver = next(
        agent
        for agent in world.living
        if agent is not world.master() and agent.control.leadership.registers.acceptors.voting(agent.me.id)
    )
    token = world.request(leaver, "leave")
    world.run(15.0)
    assert token not in leaver.replies
    voters = leads(world).term.committer.cell.value.acceptors
    assert len(voters) == 3
    assert leaver.me.id not in {contact.id for contact in voters}
    world.seal_all(BASE + 8 * SLIDE)
    until_answered(world, leaver, token)
    assert leaver.replies[token].body["state"] == "left"


def test_a_voter_that_no_agent_can_replace_votes_until_its_last_intervals_are_closed() -> None:
    world, leaver = started(3)
    token = world.request(leaver, "leave")
    world.run(15.0)
    voters = {contact.id for contact in leads(world).term.committer.cell.value.acceptors}
    assert voters == {agent.me.id for agent in world.living}, "of three one may still crash"
    world.seal_all(BASE + 8 * SLIDE)
    until_answered(world, leaver, token)
    assert leaver.replies[token].body["state"] == "left"
    voters = {contact.id for contact in leads(world).term.committer.cell.value.acceptors}
    assert voters == {agent.me.id for agent in world.living if agent is not leaver}


def test_without_a_leaver_all_intervals_are_exact() -> None:
    world, _ = started()
    world.seal_all(BASE + 8 * SLIDE)
    world.run(3.0)
    exact(world, world.master())


def leads(world: World) -> Master:
    return next(iter(world.master().control.leadership.masters.values()))


def test_an_agent_that_leaves_before_it_knows_its_number_is_not_expected() -> None:
    world, _ = started(3)
    master = leads(world)
    late = world.add(9)
    while not master.term.members._enrolling:
        world.run(0.001)
    token = world.request(late, "leave")
    world.run(3.0)
    assert late.replies[token].body["state"] == "left"
    assert master.term.book.of(late.me.id) is None
    world.kill(late)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert set(states(world)) == {("FINAL", 3)}


def test_what_it_seals_while_it_asks_for_its_last_interval_is_not_counted_beyond_that() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    leaver.seal("clicks", BASE + 8 * SLIDE)
    world.run(2.0)
    world.seal_all(BASE + 8 * SLIDE)
    until_answered(world, leaver, token)
    assert leaver.replies[token].body["state"] == "left"
    whole = world.expected(SLIDE)
    leaver.logs.clear()
    others = world.expected(SLIDE)
    found = world.results(world.master())
    assert {record.agents_expected for record, _ in found} == {4, 3}
    for record, rows in found:
        assert rows == (whole if record.agents_expected == 4 else others)[record.index]


def test_an_agent_that_has_sealed_most_leaves_behind_its_last_sealed_interval() -> None:
    world, leaver = started()
    collect = world._collect
    world._collect = lambda tree, segment, payloads: None  # type: ignore[method-assign]  # a fault of this test
    leaver.seal("clicks", BASE + 7 * SLIDE)
    world.run(0.1)
    world._collect = collect  # type: ignore[method-assign]  # a fault of this test
    world.request(leaver, "leave")
    world.run(1.0)
    (entry,) = [each for each in leads(world).term.book.entries if each.contact.id == leaver.me.id]
    assert entry.until == 1007


def test_a_leaver_that_missed_the_end_of_its_last_interval_is_notified_again() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(1.0)
    for tree in world.subscribed.values():
        tree.pop(leaver.me.id, None)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(10.0)
    assert leaver.replies[token].body["state"] == "left"


def test_a_successor_that_does_not_know_of_the_leaver_is_notified() -> None:
    world, leaver = started(5)
    world.lost = lambda source, target, message: isinstance(message, Replica) and source is old
    old = world.master()
    token = world.request(leaver, "leave")
    world.run(0.02)
    world.kill(old)
    world.lost = lambda source, target, message: False
    world.run(10.0)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(20.0)
    assert leaver.replies[token].body["state"] == "left"


def test_the_end_of_the_job_ends_it_too() -> None:
    world, leaver = started()
    token = world.request(leaver, "leave")
    world.run(1.0)
    for tree in world.subscribed.values():
        tree.pop(leaver.me.id, None)
    world.lost = lambda source, target, message: target is leaver and isinstance(message, Stop)
    other = next(agent for agent in world.living if agent is not leaver)
    world.ask(other, "delete", {"job": "shop/top"})
    world.run(1.0)
    assert token not in leaver.replies
    world.lost = lambda source, target, message: False
    world.run(5.0)
    assert leaver.replies[token].body["state"] == "left"


def test_a_request_that_times_out_names_the_jobs_that_hold_the_agent_and_it_leaves_all_the_same() -> None:
    world, leaver = started()
    world.ask(world.master(), "pause", {"job": "shop/top"})
    found = world.ask(leaver, "leave", {"wait": 2}).body
    assert (found["state"], found["waits_for"]) == ("leaving", [{"job": "shop/top", "paused": True}])
    again = world.request(leaver, "leave", {"wait": 600})
    world.ask(world.master(), "resume", {"job": "shop/top"})
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert leaver.replies[again].body["state"] == "left"
    assert {state for state, _ in states(world)} == {"FINAL"}


@pytest.mark.parametrize("agents", [1, 4])
def test_the_master_and_others_leave_at_once(agents: int) -> None:
    world, other = (started(agents)) if agents > 1 else (lone(), None)
    master = world.master()
    tokens = {agent: world.request(agent, "leave") for agent in (master, other) if agent is not None}
    world.run(1.0)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(10.0)
    for agent, token in tokens.items():
        assert agent.replies[token].body["state"] == "left"
    found = states(world) if agents > 1 else [(record.state, 1) for record, _ in world.results(master)]
    assert {state for state, _ in found} == {"FINAL"}


def lone() -> World:
    world = World(1)
    fill(world, intervals=8)
    world.apply(world[0])
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    return world


@pytest.mark.parametrize("sealed", [2, 4])
def test_a_restart_while_leaving_goes_on_to_leave(sealed: int) -> None:
    world, leaver = started()
    world.request(leaver, "leave")
    world.run(1.0)
    world.seal_all(BASE + sealed * SLIDE)
    world.run(0.05)
    world.kill(leaver)
    world.run(0.2)
    world.restart(leaver)
    world.run(1.0)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(5.0)
    assert leaver.left == 1, "it ends by itself"
    assert ("leaving", leaver.me.id) not in leaver.disk
    world.kill(leaver)
    world.run(5.0)
    found = states(world)
    assert {state for state, _ in found} == {"FINAL"}
    assert found[-1][1] == 3

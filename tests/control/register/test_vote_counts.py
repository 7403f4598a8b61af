"""Voters whose data directory was rolled back, and two agents with one id, are found out by the others."""

from __future__ import annotations

import copy

import pytest

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.protocol.messages_register import Accept, Conflict, Prepare
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.vote_counts import VoteCounts, VoterAnswer
from tests.control.member.support import Agent
from tests.control.partition import SplitWorld
from tests.control.register.support import JOB as REGISTER
from tests.control.register.support import VALUE, A, B, Held, context, sent
from tests.control.register.test_lost_votes import correct, go_on, health, running, voters, votes

Snapshot = tuple[dict[tuple[str, bytes], bytes], int]


def snapshot(agent: Agent) -> Snapshot:
    return copy.deepcopy(agent.disk), agent.incarnation


def back_in_time(world: SplitWorld, agent: Agent, to: Snapshot) -> None:
    """Start an agent from a copy of its directory."""
    world.kill(agent)
    world.run(2.0)
    agent.disk.clear()
    agent.disk.update(to[0])
    agent.incarnation = to[1]
    world.restart(agent)


def test_a_voter_that_was_rolled_back_does_not_vote_until_it_is_replaced() -> None:
    world = running()
    victim = next(agent for agent in voters(world) if agent is not world.master())
    before = snapshot(victim)
    for intervals in range(3, 9):
        go_on(world, intervals, 5.0)
    back_in_time(world, victim, before)
    go_on(world, 10, 3.0)
    assert not votes(victim)
    reported = health(world, victim)
    assert reported["status"] == "degraded"
    assert "the data directory has gone back in time" in reported["problem"]
    go_on(world, 11, 20.0)
    assert victim not in voters(world), "until its next start it is a member of no register"
    world.kill(victim)
    world.run(1.0)
    world.restart(victim)
    go_on(world, 14, 60.0)
    assert victim in voters(world)
    assert votes(victim)
    assert health(world, victim)["status"] == "ok"
    correct(world, victim, 14)


def test_those_that_were_restarted_remember_what_they_have_seen() -> None:
    world = running()
    victim = next(agent for agent in voters(world) if agent is not world.master())
    before = snapshot(victim)
    for intervals in range(3, 9):
        go_on(world, intervals, 15.0)
    others = [agent for agent in world.living if agent is not victim]
    world.kill(victim)
    for agent in others:
        world.kill(agent)
        world.run(1.0)
        world.restart(agent)
    victim.disk.clear()
    victim.disk.update(before[0])
    victim.incarnation = before[1]
    world.restart(victim)
    go_on(world, 10, 20.0)
    assert health(world, victim)["status"] == "degraded"


def test_the_older_of_two_agents_with_one_id_is_found_out() -> None:
    """The clone answers in a later start; then the other one, whose start is an earlier one."""
    world = running()
    victim = next(agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    world.restart(victim)
    go_on(world, 4, 5.0)
    clone = snapshot(victim)
    back_in_time(world, victim, (clone[0], clone[1] - 1 - 1))  # the other process, which started before
    go_on(world, 6, 5.0)
    reported = health(world, victim)
    assert reported["status"] == "degraded"
    assert "is an old copy, or one of two" in reported["problem"]
    assert not votes(victim)


def test_restarts_kills_and_late_answers_are_no_loss() -> None:
    world = running()
    for number, agent in enumerate([*world.living, *world.living]):
        world.kill(agent)
        world.run(2.0)
        world.restart(agent)
        go_on(world, 4 + number, 10.0)
    assert all(health(world, agent)["status"] == "ok" for agent in world.living)
    assert not any(agent.control.context.stats["control.votes_outdated"] for agent in world.living)


def rolled_back_at_once(intervals: int) -> tuple[SplitWorld, Agent, bool]:
    """A voter goes back to its last start seconds after this many votes, and is asked for one more.

    Its start has the number of the one that it has forgotten. Last: whether it was accepted by it.
    """
    world = running()
    victim = next(agent for agent in voters(world) if agent is not world.master())
    world.kill(victim)
    world.run(1.0)
    world.restart(victim)
    go_on(world, 3, 2.0)
    before = snapshot(victim)
    for each in range(4, 4 + intervals):
        go_on(world, each, 2.0)
    back_in_time(world, victim, (before[0], before[1] - 1))
    had = victim.control.leadership.registers.acceptors.count
    go_on(world, 4 + intervals, 2.0)
    return world, victim, victim.control.leadership.registers.acceptors.count > had


@pytest.mark.parametrize("intervals", [1, 4])
def test_a_voter_that_was_rolled_back_a_moment_ago_finds_it_out_before_it_votes(intervals: int) -> None:
    """Nothing tells such an answer from one that a later question has overtaken."""
    world, victim, voted = rolled_back_at_once(intervals)
    assert not voted
    assert not votes(victim)
    assert "the data directory has gone back in time" in health(world, victim)["problem"]


@pytest.mark.parametrize("kind", [Prepare, Accept])
def test_a_question_that_knows_of_votes_which_this_agent_does_not_is_refused(kind: type) -> None:
    voter = context()
    registers = Registers(voter, Held(voter))
    registers.acceptors.count = 7

    def asked(votes: int) -> object:
        question = (
            Prepare(REGISTER, Ballot(5, A.id), votes=votes)
            if kind is Prepare
            else Accept(REGISTER, Ballot(5, A.id), VALUE, votes=votes)
        )
        voter.out.clear()
        registers.handlers()[kind](A, question, b"")
        return sent(voter.out)[-1]

    assert not isinstance(asked(7), Conflict)
    assert registers.acceptors.lost.loss is None
    assert isinstance(asked(registers.acceptors.count + 1), Conflict)
    assert registers.acceptors.lost.loss is not None


def test_an_answer_that_a_later_question_has_overtaken_is_taken_and_changes_no_count() -> None:
    counts = VoteCounts(context())
    assert counts.newer(A, 9) is None
    assert counts.newer(A, 8) is None
    assert counts.seen(A.id) == VoterAnswer(A.incarnation, 9)
    assert counts.seen(B.id) == VoterAnswer()

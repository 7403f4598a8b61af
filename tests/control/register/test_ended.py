"""Votes on jobs that are over are forgotten, and the jobs stay over, however long an agent was away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.consensus.rules import NONE, Ballot, Promise
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages_register import Accept, Conflict, Prepare, Promised
from elfmesh.control.register import acceptor
from elfmesh.control.register.ended import KIND, EndedJobs, Floor
from elfmesh.errors import ProtocolError
from tests.control.member.support import TEXT, Agent
from tests.control.partition import SplitWorld
from tests.control.register.support import JOB as OTHER
from tests.control.register.support import VALUE, A, B, Held, context, sent
from tests.control.register.test_lost_votes import led

JOB = ids.job_id("shop/gone", "local")
LIVE = TEXT.replace("shop.top", "shop.gone")


def an_end_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> tuple[SplitWorld, Agent, Agent, Agent]:
    """One voter is away while a job is deleted; the two others forget their votes, and are killed."""
    monkeypatch.setattr(acceptor, "ENDED_MAX", 0)
    world = SplitWorld(3)
    world.apply(world[0], LIVE)
    world.run(2.0)
    away = next(agent for agent in world.living if agent is not world.master("shop/gone"))
    world.kill(away)
    world.run(2.0)
    one, two = world.living
    assert world.ask(one, "delete", {"job": "shop/gone"}).body["state"] == "deleted"
    world.run(10.0)
    for agent in (one, two):
        assert agent.control.leadership.registers.acceptors.vote(JOB).value is None
        assert (KIND, b"") in agent.disk
        assert ("vote", JOB) not in agent.disk
        world.kill(agent)
    world.run(2.0)
    return world, one, two, away


def test_a_deleted_job_stays_gone_when_the_agents_that_voted_on_it_have_forgotten_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, one, two, away = an_end_that_is_forgotten(monkeypatch)
    world.restart(one)
    world.restart(away)
    world.run(120.0)
    assert led(world) == {}, "the vote of one that may have forgotten does not count"
    world.restart(two)
    world.run(120.0)
    assert led(world) == {}
    assert JOB not in away.control.member_host.members, "it works on the job no more"
    assert world.apply(world[0], LIVE).status == 200
    world.run(5.0)
    assert led(world) == {"shop/gone": 1}


def test_without_the_floor_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world, one, _, away = an_end_that_is_forgotten(monkeypatch)
    monkeypatch.setattr(Promise, "hides", lambda self, found: False)
    world.restart(one)
    world.restart(away)
    world.run(120.0)
    assert led(world) == {"shop/gone": 1}


def forgetful(monkeypatch: pytest.MonkeyPatch) -> tuple[Context, acceptor.Acceptors]:
    """An acceptor that has voted on a job, and on its end, and has forgotten both."""
    monkeypatch.setattr(acceptor, "ENDED_MAX", 0)
    registers = context()
    acceptors = acceptor.Acceptors(registers, Held(registers))
    acceptors.on_accept(A, Accept(OTHER, Ballot(7, A.id, 1), replace(VALUE, deleted=True)), b"")
    assert len(acceptors) == 0
    registers.out.clear()
    return registers, acceptors


def test_the_floor_is_promised_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    registers, acceptors = forgetful(monkeypatch)
    acceptors.on_prepare(B, Prepare(OTHER, Ballot(7, B.id, 1), floors=True))
    acceptors.on_accept(A, Accept(OTHER, Ballot(7, A.id, 1), VALUE), b"")
    low, late = sent(registers.out)
    assert isinstance(low, Conflict)
    assert isinstance(late, Conflict)
    assert low.promised == late.promised == Ballot(8, A.id, 1)
    registers.out.clear()
    acceptors.on_prepare(B, Prepare(OTHER, Ballot(9, B.id, 1), floors=True))
    (promise,) = sent(registers.out)
    assert isinstance(promise, Promised)
    assert (promise.value, promise.floor) == (None, Ballot(8, A.id, 1))


def test_a_proposer_of_an_earlier_release_gets_no_promise_that_hides_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registers, acceptors = forgetful(monkeypatch)
    acceptors.on_prepare(B, Prepare(OTHER, Ballot(9, B.id, 1)))
    (answer,) = sent(registers.out)
    assert isinstance(answer, Conflict)


def test_the_floor_outlives_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    _, acceptors = forgetful(monkeypatch)
    kept = EndedJobs()
    kept.restored(acceptors.ended.forget(OTHER, NONE, 0))
    assert kept.floor == acceptors.ended.floor == Floor(Ballot(8, A.id, 1), 1)
    with pytest.raises(ProtocolError, match="floor"):
        kept.restored(b"x")

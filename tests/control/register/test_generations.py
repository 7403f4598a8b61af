"""Registers of two generations of a job: who knows the later one has no part in the other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.election.election import SUPERSEDED, Elections
from elfmesh.control.jobs.register_value import GENERATION_BITS, RegisterCell
from elfmesh.control.protocol.messages_register import Accepted, Conflict, Prepare, Promised
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.changes import ChangeRefused, Create, Settle, TakeOver
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.registers import Registers
from elfmesh.machine import Contact
from tests.control.member.support import Agent
from tests.control.partition import SplitWorld
from tests.control.register.support import JOB, ME, TERMS, VALUE, A, B, Held, context, sent
from tests.control.register.test_lost_votes import go_on, led, voters
from tests.control.requests.test_no_majority import without_two
from tests.control.requests.test_recovery import one_master, recovered

SECOND = 1 << GENERATION_BITS
"""The first epoch of the second generation."""


class Knowing(Held):
    """What an agent holds that has heard of the second generation, and whom it has told."""

    notified: tuple[Contact | None, ...] = ()

    def epoch(self, job: bytes) -> int:
        return SECOND + 7

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        self.notified += (sender,)
        return False


def test_an_acceptor_that_knows_a_later_generation_refuses_to_promise_in_an_earlier_one() -> None:
    own_registers = context()
    held = Knowing(own_registers)
    acceptors = Acceptors(own_registers, held)
    acceptors.on_prepare(A, Prepare(JOB, Ballot(5, A.id)))
    assert sent(own_registers.out) == [Conflict(JOB, Ballot(5, A.id), Ballot(), superseded=True)]
    assert held.notified == (A,)
    own_registers.out.clear()
    acceptors.on_prepare(A, Prepare(JOB, Ballot(5, A.id), generation=1))
    assert isinstance(sent(own_registers.out)[-1], Promised)


def test_every_change_names_its_generation() -> None:
    own_registers = context()
    registers = Registers(own_registers, Held(own_registers))
    for change, expected in (
        (TakeOver("i", ME, SECOND + 3), 1),
        (Settle("i", SECOND + 3), 1),
        (Create(replace(VALUE, epoch=SECOND + 3)), 1),
        (TakeOver("i", ME, 3), 0),
    ):
        proposer = registers.proposer(JOB, (ME, A, B))
        proposer.submit(change, lambda outcome: None, TERMS)
        asked = [each for each in sent(own_registers.out) if isinstance(each, Prepare)]
        assert asked
        assert {each.generation for each in asked} == {expected}
        proposer.drop()
        own_registers.out.clear()
        own_registers.inbox.clear()


def test_no_term_of_the_old_register_is_one_of_the_later_generation() -> None:
    change = TakeOver("i", ME, VALUE.epoch, floor=SECOND + 7)
    with pytest.raises(ChangeRefused, match="other voters"):
        change.apply(RegisterCell(VALUE), certain=True)


def test_a_candidate_that_wins_an_epoch_below_one_that_it_knows_by_then_does_not_lead() -> None:
    own_registers = context()
    known = [1]
    registers = Registers(own_registers, Held(own_registers))
    elections = Elections(own_registers, registers, lambda job: known[0])
    outcomes: list[Won | Lost] = []
    elections.take_over(replace(TERMS, acceptors=(ME, A, B)), outcomes.append)
    asked = next(each for each in sent(own_registers.out) if isinstance(each, Prepare))
    for voter in (A, B):
        registers.on_promised(voter, Promised(JOB, asked.ballot, Ballot(0, A.id), VALUE, TERMS, None), b"")
    known[0] = SECOND + 7
    for voter in (A, B):
        registers.on_accepted(voter, Accepted(JOB, asked.ballot), b"")
    assert outcomes == [Lost(SUPERSEDED, open=True)]


@pytest.mark.parametrize("count", [3, 5])
def test_a_recovery_that_was_begun_and_not_done_can_be_done_again(count: int) -> None:
    """Voters that came back and know of it vote on nothing of the old register any more."""
    world, gone = without_two(count)
    left = world.living[0]
    left.control.leadership.admits(ids.job_id("shop/top", "local"), SECOND + 7, None)
    for agent in gone:
        world.restart(agent)
    world.run(60.0)
    assert led(world) == {}
    reported = recovered(world, _asked(world))
    assert isinstance(reported["voters"], list)
    states = [voter["state"] for voter in reported["voters"]]
    assert states.count("answers") <= 1
    go_on(world, 20, 60.0)
    one_master(world)
    assert voters(world)


def _asked(world: SplitWorld) -> int:
    agents: list[Agent] = world.living
    return agents[0].number

"""What a proposer may tell of an incarnation's end: a vote of few may never be the register's value."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.protocol.messages_register import Accept, Accepted, Promised
from elfmesh.control.register.changes import ChangeRefused, TakeOver
from elfmesh.control.register.proposer import Proposer
from tests.control.register.support import JOB, ME, TERMS, VALUE, A, B, context, sent

ENDED = replace(VALUE, deleted=True)
AGAIN = replace(VALUE, incarnation="j", epoch=2)


@pytest.mark.parametrize("found", [ENDED, AGAIN])
def test_an_end_that_few_have_accepted_is_not_reported_before_a_quorum_has(found: RegisterValue) -> None:
    """It may never be chosen, and who has buried a job that goes on tells others that it is over."""
    registers = context()
    outcomes: list[RegisterCell | ChangeRefused] = []
    proposer = Proposer(registers, JOB, (ME, A, B), 7)
    proposer.submit(TakeOver("i", B, 1), outcomes.append, TERMS)
    ballot = Ballot(1, ME.id, 7)
    proposer.on_promised(A, Promised(JOB, ballot, Ballot(0, B.id, 2), found, None, None), b"")
    registers.out.clear()
    proposer.on_promised(B, Promised(JOB, ballot, Ballot(0, B.id, 1), VALUE, None, None), b"")
    assert {message.value for message in sent(registers.out) if isinstance(message, Accept)} == {found}
    proposer.on_accepted(A, Accepted(JOB, ballot))
    assert outcomes == []
    proposer.on_accepted(B, Accepted(JOB, ballot))
    (outcome,) = outcomes
    assert isinstance(outcome, ChangeRefused)
    assert outcome.cell == RegisterCell(found)


def test_an_end_that_a_quorum_has_accepted_is_reported_without_another_round() -> None:
    registers = context()
    outcomes: list[RegisterCell | ChangeRefused] = []
    proposer = Proposer(registers, JOB, (ME, A, B), 7)
    proposer.submit(TakeOver("i", B, 1), outcomes.append, TERMS)
    ballot = Ballot(1, ME.id, 7)
    for sender in (A, B):
        proposer.on_promised(sender, Promised(JOB, ballot, Ballot(0, B.id, 2), ENDED, None, None), b"")
    assert isinstance(outcomes[0], ChangeRefused)
    assert not any(isinstance(message, Accept) for message in sent(registers.out))

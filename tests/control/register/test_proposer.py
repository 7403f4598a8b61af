"""Rounds of one proposer."""

from __future__ import annotations

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.protocol.messages_register import (
    Accepted,
    Conflict,
    Prepare,
    Promised,
)
from elfmesh.control.register.changes import ChangeRefused, Create
from elfmesh.control.register.proposer import Proposer
from tests.control.register.support import (
    JOB,
    ME,
    STRANGER,
    TERMS,
    VALUE,
    A,
    B,
    context,
    run,
    sent,
)


def test_a_round_does_not_wait_for_the_dead_while_a_majority_is_there() -> None:
    """One has promised a higher ballot to a lost proposer, one is gone: the round can only be lost."""
    own_registers = context()
    outcomes: list[RegisterCell | ChangeRefused] = []
    proposer = Proposer(own_registers, JOB, (ME, A, B), 7)
    proposer.submit(Create(VALUE), outcomes.append, TERMS)
    first = Ballot(1, ME.id, 7)
    proposer.on_promised(ME, Promised(JOB, first, NONE, None, None, None), b"")
    proposer.on_conflict(A, Conflict(JOB, first, Ballot(5, STRANGER.id)))
    own_registers.out.clear()
    run(own_registers, 5.0)
    asked = [message for message in sent(own_registers.out) if isinstance(message, Prepare)]
    assert asked[-1].ballot.counter > 5
    for sender in (ME, A):
        proposer.on_promised(sender, Promised(JOB, asked[-1].ballot, NONE, None, None, None), b"")
        proposer.on_accepted(sender, Accepted(JOB, asked[-1].ballot))
    proposer.on_accepted(ME, Accepted(JOB, asked[-1].ballot))
    assert outcomes == [RegisterCell(VALUE)]

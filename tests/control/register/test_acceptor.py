"""Acceptors one at a time: durable votes, what is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.jobs.register_value import (
    RegisterCell,
)
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import Append, Persist
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Conflict,
    Prepare,
    Promised,
)
from elfmesh.control.protocol.messages_succession import Fetch
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.lost_votes import Loss
from elfmesh.errors import ProtocolError
from elfmesh.machine import Send
from tests.control.register.support import (
    JOB,
    STRANGER,
    TERMS,
    VALUE,
    A,
    B,
    Held,
    context,
    run,
    sent,
    with_tail,
)


def test_a_vote_is_on_disk_before_it_is_answered_and_binds_after_a_restart() -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers))
    acceptors.on_prepare(A, Prepare(JOB, Ballot(5, A.id)))
    *_, promised = own_registers.out
    assert sent([promised]) == [Promised(JOB, Ballot(5, A.id), NONE, None, TERMS, None, votes=1)]
    own_registers.out.clear()
    acceptors.on_accept(A, Accept(JOB, Ballot(5, A.id), VALUE), b"")
    persisted, counted, accepted = own_registers.out
    assert isinstance(persisted, Persist)
    assert isinstance(counted, Persist)
    assert sent([accepted]) == [Accepted(JOB, Ballot(5, A.id), votes=2)]
    again = context()
    restarted = Acceptors(again, Held(again))
    restarted.restored(JOB, persisted.data)
    restarted.counted(counted.data)
    restarted.on_prepare(B, Prepare(JOB, Ballot(6, A.id)))
    (promised_again,) = sent(again.out)
    assert promised_again == Promised(JOB, Ballot(6, A.id), Ballot(5, A.id), VALUE, TERMS, None, votes=2)
    again.out.clear()
    restarted.on_accept(B, Accept(JOB, Ballot(4, B.id), replace(VALUE, master=B)), b"")
    assert sent(again.out) == [Conflict(JOB, Ballot(4, B.id), Ballot(6, A.id))]
    assert restarted.vote(JOB).value == RegisterCell(VALUE)


def test_a_vote_that_cannot_be_read_is_not_voted_over() -> None:
    own_registers = context()
    with pytest.raises(ProtocolError, match="cannot be read"):
        Acceptors(own_registers, Held(own_registers)).restored(JOB, b"\xc1 nonsense")


@pytest.mark.parametrize(
    ("latest", "terms"),
    [(6, TERMS), (None, TERMS), (7, None), (7, replace(TERMS, version=2))],
    ids=["a record is missing", "all are missing", "no terms", "an old roster"],
)
def test_an_acceptor_that_could_not_help_a_successor_does_not_vote(
    latest: int | None, terms: Terms | None
) -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers, latest, terms))
    value, page = with_tail(replace(VALUE, roster=3), 7, 8, 9)
    acceptors.on_accept(A, Accept(JOB, Ballot(5, A.id), value), page)
    assert acceptors.vote(JOB).value is None
    assert Conflict(JOB, Ballot(5, A.id), NONE, behind=True) in sent(own_registers.out)
    assert not any(isinstance(effect, Persist) for effect in own_registers.out)
    acceptors.on_accept(A, Accept(JOB, Ballot(5, A.id), value, terms=replace(TERMS, version=3)), page)
    assert (acceptors.vote(JOB).value is not None) == (latest == 7)


def test_an_acceptor_that_is_one_again_and_lags_behind_does_not_refuse_for_its_lost_votes() -> None:
    """Its register would leave it out again, although it votes as soon as it has what it lacks."""
    own_registers = context()
    held, boot = Held(own_registers, 6), own_registers.me.incarnation
    acceptors = Acceptors(own_registers, held)
    acceptors.lost.loss = Loss(boot, "state.log", "is damaged")
    value, page = with_tail(VALUE, 7, 8, 9)
    joint, settled = Accept(JOB, Ballot(5, A.id), replace(value, former=(A, B))), Ballot(6, A.id)
    acceptors.on_accept(A, Accept(JOB, settled, value), page)
    assert sent(own_registers.out)[-1] == Conflict(JOB, settled, NONE, lost_at=boot)
    acceptors.on_accept(A, joint, page)
    assert sent(own_registers.out)[-1] == Conflict(JOB, joint.ballot, NONE, behind=True)
    acceptors.on_accept(A, Accept(JOB, settled, value), page)
    assert sent(own_registers.out)[-1] == Conflict(JOB, settled, NONE, behind=True)
    held.copy.latest = 7
    acceptors.on_accept(A, Accept(JOB, settled, value), page)
    votes = [message for message in sent(own_registers.out) if isinstance(message, Accepted)]
    assert [message.ballot for message in votes] == [joint.ballot, settled]
    assert acceptors.vote(JOB).value == RegisterCell(value, page)


def test_a_tail_goes_to_the_log_once_its_value_is_known_to_be_chosen() -> None:
    own_registers = context()
    held = Held(own_registers, 7)
    acceptors = Acceptors(own_registers, held)
    first, page = with_tail(VALUE, 7, 8, 9)
    second, following = with_tail(first, 9, 10)
    acceptors.on_accept(A, Accept(JOB, Ballot(5, A.id), first), page)
    assert not any(isinstance(effect, Append) for effect in own_registers.out)
    acceptors.on_accept(A, Accept(JOB, Ballot(6, A.id), second, settled=Ballot(4, A.id)), following)
    assert held.copy.latest == 7, "another value was chosen"
    acceptors.on_accept(A, Accept(JOB, Ballot(6, A.id), second, settled=Ballot(5, A.id)), following)
    kinds = [type(effect).__name__ for effect in own_registers.out if not isinstance(effect, Send)]
    assert held.copy.latest == 9
    assert kinds[2:] == ["Append", "Append", "Persist", "Persist"], (
        "the records before the vote replaces them"
    )


def test_what_an_acceptor_lacks_it_fetches_from_others_than_the_candidate_too() -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers, 6))
    value, page = with_tail(VALUE, 7, 8)
    acceptors.on_accept(STRANGER, Accept(JOB, Ballot(5, STRANGER.id), value, sources=(B,)), page)
    run(own_registers, 20.0)
    asked = [
        effect.to.id
        for effect in own_registers.out
        if isinstance(effect, Send) and isinstance(effect.message, Fetch)
    ]
    assert asked == [B.id, STRANGER.id, A.id], "each once, until the vote is wanted again"

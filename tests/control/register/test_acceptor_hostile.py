"""Hostile messages to acceptors and proposers: they change nothing, use nothing up, and are not counted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.agent.runtime.core import codec
from elfmesh.control.consensus.rules import COUNTER_MAX, LEAP_MAX, NONE, Ballot
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue, digest
from elfmesh.control.protocol.messages import pack
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Conflict,
    Prepare,
    Promised,
)
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.changes import ChangeRefused, Create
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.registers import Registers
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message, Send
from tests.control.register.support import (
    JOB,
    ME,
    STRANGER,
    TERMS,
    VALUE,
    A,
    B,
    Held,
    context,
    sent,
    tail,
)

HOSTILE: list[tuple[RegisterValue, bytes]] = [
    (replace(VALUE, job=b"x" * 20), b""),
    (replace(VALUE, acceptors=()), b""),
    (replace(VALUE, acceptors=(ME, ME, A)), b""),
    (replace(VALUE, acceptors=tuple(Contact(bytes([n]) * 20, "h", n) for n in range(9))), b""),
    (replace(VALUE, epoch=0), b""),
    (VALUE, b"a tail that no sender announced"),
    (replace(VALUE, digest=digest(b"junk"), latest=3), b"junk"),
    (replace(VALUE, digest=digest(tail(4, 3)), latest=3), tail(4, 3)),
    (replace(VALUE, digest=digest(tail(3)), latest=9), tail(3)),
    (replace(VALUE, digest=digest(tail(3)), latest=3, before=3), tail(3)),
]


@pytest.mark.parametrize(("value", "page"), HOSTILE)
def test_values_that_contradict_themselves_change_nothing(value: RegisterValue, page: bytes) -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers))
    acceptors.on_accept(STRANGER, Accept(JOB, Ballot(5, STRANGER.id), value), page)
    assert acceptors.vote(JOB).value is None
    assert own_registers.stats["control.malformed"] == 1
    assert own_registers.out == []


@pytest.mark.parametrize("counter", [LEAP_MAX + 1, COUNTER_MAX + 1, (1 << 63) - 1])
def test_a_huge_ballot_does_not_use_up_the_register(counter: int) -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers))
    acceptors.on_prepare(STRANGER, Prepare(JOB, Ballot(counter, STRANGER.id)))
    acceptors.on_accept(STRANGER, Accept(JOB, Ballot(counter, STRANGER.id), VALUE), b"")
    assert [type(message) for message in sent(own_registers.out)] == [Conflict, Conflict]
    own_registers.out.clear()
    acceptors.on_prepare(A, Prepare(JOB, Ballot(1, A.id)))
    assert isinstance(sent(own_registers.out)[0], Promised)


def test_votes_of_agents_that_were_not_asked_are_not_counted() -> None:
    own_registers = context()
    outcomes: list[RegisterCell | ChangeRefused] = []
    proposer = Proposer(own_registers, JOB, (ME, A, B), 7)
    proposer.submit(Create(VALUE), outcomes.append, TERMS)
    ballot = Ballot(1, ME.id, 7)
    for sender in (STRANGER, STRANGER, A):
        proposer.on_promised(sender, Promised(JOB, ballot, NONE, None, None, None), b"")
    proposer.on_promised(A, Promised(JOB, ballot, NONE, None, None, None), b"")
    assert not any(isinstance(message, Accept) for message in sent(own_registers.out))
    proposer.on_promised(B, Promised(JOB, ballot, NONE, None, None, None), b"")
    assert sum(isinstance(message, Accept) for message in sent(own_registers.out)) == 2
    for sender, other in ((STRANGER, ballot), (A, Ballot(1, ME.id, 8)), (A, ballot), (A, ballot)):
        proposer.on_accepted(sender, Accepted(JOB, other))
    assert outcomes == []
    proposer.on_accepted(B, Accepted(JOB, ballot))
    assert outcomes == [RegisterCell(VALUE)]
    assert own_registers.stats["control.stray_votes"] == 4


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([Prepare, Promised, Accept, Accepted, Conflict]), st.data())
def test_garbage_in_any_message_is_refused_or_changes_nothing(
    noise: bytes, kind: type[Message], data: st.DataObject
) -> None:
    messages = {
        Prepare: Prepare(JOB, Ballot(3, A.id)),
        Promised: Promised(JOB, Ballot(3, A.id), NONE, VALUE, TERMS, 4),
        Accept: Accept(JOB, Ballot(3, A.id), VALUE, None, TERMS),
        Accepted: Accepted(JOB, Ballot(3, A.id)),
        Conflict: Conflict(JOB, Ballot(3, A.id), NONE),
    }
    wire = codec()
    header = bytearray(pack(messages[kind]))
    for place in data.draw(st.lists(st.integers(0, len(header) - 1), max_size=4)):
        header[place] = data.draw(st.integers(0, 255))
    try:
        message = wire.decode_header(bytes(header))
    except ProtocolError:
        return
    own_registers = context()
    registers = Registers(own_registers, Held(own_registers))
    registers.proposer(JOB, (ME, A, B)).submit(Create(VALUE), lambda outcome: None, TERMS)
    if (handler := registers.handlers().get(type(message))) is not None:
        handler(A, message, noise)
    assert all(effect.to.id != STRANGER.id for effect in own_registers.out if isinstance(effect, Send))

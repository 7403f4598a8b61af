"""Nothing that an election needs is waited for longer than it must be: dead sources, late pages."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Vote
from elfmesh.control.protocol.messages_register import Accept, Accepted, Conflict, Prepare
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.changes import Create
from elfmesh.control.register.left_out import OwnVote
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.log_copy import FETCH_S, LogCopy
from elfmesh.machine import Send
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
    run,
    sent,
    tail,
    with_tail,
)


def test_a_late_page_counts_although_the_next_source_was_asked_and_the_lost_are_asked_last() -> None:
    registers = context()
    copy = LogCopy(registers, JOB, "i", None, lambda: ())
    registers.lost(STRANGER.id)
    for source in (STRANGER, A, B):
        copy.complete(source)
    run(registers, FETCH_S[0])
    asked = [effect for effect in registers.out if isinstance(effect, Send)]
    assert [effect.to for effect in asked] == [STRANGER, A], "it was begun before the others were known"
    second = asked[1].message
    run(registers, sum(FETCH_S[:2]))
    assert isinstance(second, Fetch)
    copy.on_page(A, Page(JOB, "i", second.token, done=False), tail(1))
    assert copy.latest == 1
    *_, last = (effect for effect in registers.out if isinstance(effect, Send))
    assert last.to == A, "who has answered is asked for the rest"


def test_an_acceptor_that_has_caught_up_votes_without_being_asked_again() -> None:
    registers = context()
    held = Held(registers, 6)
    acceptors = Acceptors(registers, held)
    value, page = with_tail(VALUE, 7, 8)
    ballot = Ballot(5, STRANGER.id)
    acceptors.on_accept(STRANGER, Accept(JOB, ballot, value), page)
    (refusal,) = (each for each in sent(registers.out) if isinstance(each, Conflict))
    assert refusal.behind
    (fetch,) = (each for each in sent(registers.out) if isinstance(each, Fetch))
    registers.out.clear()
    _, copy = held.held(JOB)
    assert copy is not None
    copy.on_page(STRANGER, Page(JOB, "i", fetch.token, done=True), tail(7))
    while copy.fetching:  # the others have no more
        *_, last = (effect for effect in registers.out if isinstance(effect, Send))
        assert isinstance(last.message, Fetch)
        copy.on_page(last.to, Page(JOB, "i", last.message.token, done=True), b"")
    (answer,) = (each for each in sent(registers.out) if isinstance(each, Accepted))
    assert replace(answer, cause=UNSET) == Accepted(JOB, ballot, votes=1)


def test_the_first_ballot_is_above_what_this_agent_has_promised_as_an_acceptor() -> None:
    registers = context()
    proposer = Proposer(registers, JOB, (ME, A, B), 7, lambda: OwnVote(Vote(Ballot(41, A.id))))
    proposer.submit(Create(VALUE), lambda outcome: None, TERMS)
    first = next(each for each in sent(registers.out) if isinstance(each, Prepare))
    assert first.ballot.counter == 42

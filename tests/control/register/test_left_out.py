"""Promises and requests to accept leave out what the other side has, and are completed there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Vote
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.protocol.messages_register import Accept, Promised, ProposerHas
from elfmesh.control.register.left_out import OwnVote, PromiseParts, parts_for, read_promised, tail_of
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.errors import ProtocolError
from tests.control.register.support import JOB, TERMS, VALUE, A, with_tail
from tests.control.register.test_folding import chain

OLD, NEW = Ballot(1, A.id, 1), Ballot(2, A.id, 1)
CELL = RegisterCell(*with_tail(VALUE, 2, 3, 4))
OTHER = RegisterCell(*with_tail(VALUE, 2, 4))
OWN = OwnVote(Vote(OLD, OLD, CELL), chain(5, 6))


def promised(parts: PromiseParts, cell: RegisterCell | None) -> tuple[Promised, bytes]:
    about = JOB, NEW, OLD, None if cell is None else cell.value, parts.terms, None, 1
    message = Promised(
        *about, voted_bytes=len(parts.voted), left_out=parts.left_out, same_terms=parts.same_terms
    )
    return message, parts.tail + parts.voted


@pytest.mark.parametrize("cell", [CELL, OTHER, RegisterCell(VALUE), None])
@pytest.mark.parametrize(
    "voted", [chain(), chain(5), chain(5, 6), chain(5, 6, 7), chain(5, 9), chain(7), chain(5, reason="other")]
)
@pytest.mark.parametrize("own", [OWN, OwnVote(), OwnVote(OWN.vote)])
def test_a_promise_reads_as_if_nothing_were_left_out(
    own: OwnVote, cell: RegisterCell | None, voted: VotedChain
) -> None:
    for has in (own.has(TERMS), ProposerHas()):
        message, payload = promised(parts_for(has, cell, voted, TERMS), cell)
        assert read_promised(JOB, message, payload, own) == (cell, voted)


def test_equal_records_tail_and_terms_are_left_out() -> None:
    near = replace(TERMS, closed=9, acceptors=(A,))
    assert parts_for(OWN.has(TERMS), CELL, chain(5, 6), near) == PromiseParts(None, b"", b"", 2, True)
    part = parts_for(OWN.has(TERMS), OTHER, chain(5, 6, 7), replace(TERMS, version=2))
    assert part == PromiseParts(
        replace(TERMS, version=2), OTHER.tail, chain(5, 6, 7).page(2), left_out=2, same_terms=False
    )
    assert not parts_for(OWN.has(None), CELL, chain(), None).same_terms, "neither has any"


def test_an_earlier_release_gets_and_sends_everything() -> None:
    assert parts_for(ProposerHas(), CELL, chain(5), TERMS) == PromiseParts(
        TERMS, CELL.tail, chain(5).page(), left_out=0, same_terms=False
    )


def test_a_promise_that_leaves_out_what_the_proposer_lacks_is_damaged() -> None:
    message, payload = promised(parts_for(OWN.has(TERMS), CELL, chain(5, 6), TERMS), CELL)
    for lacking in (OwnVote(), OwnVote(OWN.vote, chain(5)), OwnVote(Vote(OLD, OLD, OTHER), chain(5, 6))):
        with pytest.raises(ProtocolError):
            read_promised(JOB, message, payload, lacking)


def test_an_acceptor_completes_a_tail_on_which_it_has_voted() -> None:
    value, tail = with_tail(VALUE, 4, 5, 6)
    request = Accept(JOB, NEW, value, voted=2)
    assert tail_of(request, b"", OWN) == tail
    assert tail_of(replace(request, voted=0), tail, OwnVote()) == tail
    assert tail_of(request, b"", OwnVote(Vote(NEW, NEW, RegisterCell(value, tail)))) == tail, "a repetition"
    for lacking in (OwnVote(), OwnVote(OWN.vote, chain(5)), OwnVote(OWN.vote, chain(5, 7))):
        assert tail_of(request, b"", lacking) is None

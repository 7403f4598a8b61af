"""What messages of a round leave out, because the other side has it: records, the tail of a value, and terms.

A proposer is an acceptor as a rule, and acceptors that vote have equal records. So a promise leaves out what
the proposer states to have, and a request to accept leaves out a tail on which the acceptor has voted.

Owns how a message is shortened and completed again. Decides nothing about a value.

Invariant: what is put in again has the digest that the message names, so a value or a vote is the one that
the sender has.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Vote
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import RegisterCell, check_cell, digest
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages_register import Accept, Promised, ProposerHas
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.errors import ProtocolError

_PACK = msgspec.msgpack.Encoder()


class OwnVote(NamedTuple):
    """What this agent has accepted in a register, and the records on which it has voted under that ballot."""

    vote: Vote[RegisterCell] = Vote()
    chain: VotedChain = VotedChain()

    @property
    def tail(self) -> bytes:
        return b"" if self.vote.value is None else self.vote.value.tail

    def has(self, terms: Terms | None) -> ProposerHas:
        """Return what a proposer with these terms states to have. Cost: the terms as bytes."""
        value = self.vote.value
        return ProposerHas(b"" if value is None else value.value.digest, _digest(terms), self.chain.links)


def _digest(terms: Terms | None) -> bytes:
    """Return the digest of terms without what the register states; b"" without terms."""
    return b"" if terms is None else digest(_PACK.encode(replace(terms, closed=FIRST, acceptors=())))


class PromiseParts(NamedTuple):
    """The parts of a promise that the proposer lacks; see `Promised`."""

    terms: Terms | None
    tail: bytes
    voted: bytes
    left_out: int
    same_terms: bool


def parts_for(
    has: ProposerHas, cell: RegisterCell | None, chain: VotedChain, terms: Terms | None
) -> PromiseParts:
    """Return what a promise brings to a proposer."""
    pairs = zip(has.links, chain.links, strict=False)
    left_out = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if left_out is None:
        left_out = min(len(has.links), len(chain.links))
    lacks_tail = cell is not None and cell.value.digest != has.tail
    same_terms = has.terms != b"" and _digest(terms) == has.terms
    tail = cell.tail if cell is not None and lacks_tail else b""
    return PromiseParts(None if same_terms else terms, tail, chain.page(left_out), left_out, same_terms)


def read_promised(
    job: bytes, message: Promised, payload: bytes, own: OwnVote
) -> tuple[RegisterCell | None, VotedChain]:
    """Return the value and the voted records of a promise.

    Args:
        job: job of the register.
        message: the promise.
        payload: its tail and voted records, as far as the proposer lacks them.
        own: what the proposer has stated to have.

    Raises:
        ProtocolError: the promise is damaged, or leaves out what the proposer lacks.
    """
    at = max(0, len(payload) - message.voted_bytes)
    cell = None
    if message.value is not None:
        cell = RegisterCell(message.value, payload[:at] or (own.tail if message.value.digest else b""))
        check_cell(job, cell)
    if message.left_out > len(own.chain.links):
        raise ProtocolError("a promise that leaves out records that the proposer lacks")
    return cell, VotedChain.of_page(payload[at:], own.chain.first(message.left_out))


def tail_of(message: Accept, payload: bytes, own: OwnVote) -> bytes | None:
    """Return the tail of a value; None: the acceptor lacks it, or has written its rows in another way."""
    if payload or not message.voted:
        return payload
    if own.vote.ballot == message.ballot:
        return own.tail
    tail = encode_page(own.chain.records[: message.voted])
    return tail if digest(tail) == message.value.digest else None

"""The vote of an acceptor on one register as the state log stores it.

Owns the bytes. The records on which the acceptor has voted under the ballot of its value are part of the
vote, so that both are in one frame (docs/adr/0028).
"""

from __future__ import annotations

import msgspec

from elfmesh.control.consensus.rules import Ballot, Vote
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.register.voted_chain import VotedChain
from elfmesh.errors import ProtocolError
from elfmesh.wire import UNREADABLE


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    promised: Ballot
    ballot: Ballot
    value: RegisterValue | None
    tail: bytes
    voted: bytes = b""


_UNPACK = msgspec.msgpack.Decoder(_Stored)
_PACK = msgspec.msgpack.Encoder()


def encode_vote(vote: Vote[RegisterCell], chain: VotedChain) -> bytes:
    value, tail = (None, b"") if vote.value is None else (vote.value.value, vote.value.tail)
    return _PACK.encode(_Stored(vote.promised, vote.ballot, value, tail, chain.page()))


def decode_vote(job: bytes, data: bytes) -> tuple[Vote[RegisterCell], VotedChain]:
    """Return a stored vote, and the records on which the acceptor has voted.

    Raises:
        ProtocolError: the vote cannot be read; without it the agent could break a promise.
    """
    try:
        stored = _UNPACK.decode(data)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"the vote on job {job.hex()} cannot be read: {error}") from None
    cell = None if stored.value is None else RegisterCell(stored.value, stored.tail)
    return Vote(stored.promised, stored.ballot, cell), VotedChain.of_page(stored.voted)


def vouched_by(data: bytes) -> tuple[str, int] | None:
    """Return the incarnation and the last record that a log must have, by a stored vote; None: no record."""
    try:
        value = _UNPACK.decode(data).value
    except UNREADABLE:
        return None
    if value is None or value.deleted or value.before is None:
        return None
    return value.incarnation, value.before

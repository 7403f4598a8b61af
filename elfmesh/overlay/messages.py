"""Messages between the agents of the overlay.

Owns the typed messages with the tag "ov.*". Does not decide when they are sent or what follows. Every request
carries `rid`, a number that the requester chose; its answer carries the same number. The sender is never a
field: the transport authenticates it (`Received.sender`), so no agent can send in the name of another.

Paper: ELF 2.3 (the substrate under JOIN, multicast and "messages routed by key").
"""

from __future__ import annotations

import msgspec

from elfmesh.machine import Contact, Count, Index, Message


class Obituary(msgspec.Struct, frozen=True, array_like=True):
    """Hearsay that an agent may be dead. It is a reason to ping the agent, but not evidence of its death.

    Attributes:
        id: id of the agent.
        incarnation: the incarnation that is reported dead; a later one is not affected.
    """

    id: bytes
    incarnation: int


class Ping(Message, frozen=True, tag="ov.ping"):
    """Request for a Pong; also used to verify a second-hand contact."""

    rid: int
    obituaries: tuple[Obituary, ...] = ()


class Pong(Message, frozen=True, tag="ov.pong"):
    """Answer to a Ping."""

    rid: int
    obituaries: tuple[Obituary, ...] = ()


class Find(Message, frozen=True, tag="ov.find"):
    """Request for the `k` agents closest to `key` that the receiver knows."""

    rid: int
    key: bytes
    k: int


class Rows(Message, frozen=True, tag="ov.rows"):
    """Request for the receiver's siblings and the active contact of every cell."""

    rid: int


class Found(Message, frozen=True, tag="ov.found"):
    """Answer to `Find` (closest first) and to `Rows`."""

    rid: int
    contacts: tuple[Contact, ...]


class Beat(Message, frozen=True, tag="ov.beat"):
    """Heartbeat of a pair of peers, with the upper layer's digest for the receiver.

    `ahead_us`: how far the receiver's wall clock is ahead of the sender's, if known.
    """

    rid: int
    digest: bytes
    obituaries: tuple[Obituary, ...] = ()
    ahead_us: Index | None = None


class BeatBack(Message, frozen=True, tag="ov.beatback"):
    """Answer to a heartbeat; `clock_us` is the sender's wall clock, 0 if it has none."""

    rid: int
    digest: bytes
    obituaries: tuple[Obituary, ...] = ()
    clock_us: Count = 0


class Relay(Message, frozen=True, tag="ov.relay"):
    """Request to ping `target`, which the sender cannot reach."""

    rid: int
    target: Contact


class Relayed(Message, frozen=True, tag="ov.relayed"):
    """Answer to a `Relay`: whether the target answered."""

    rid: int
    alive: bool


class Hop(Message, frozen=True, tag="ov.hop"):
    """One hop of a routed message; the routed payload is the frame's payload.

    Attributes:
        origin: the agent that routed it first; (origin.id, nonce) identifies the message.
        nonce: chosen by the origin.
        key: its destination.
        hops: number of hops so far.
        body: the upper layer's header bytes.
    """

    origin: Contact
    nonce: int
    key: bytes
    hops: int
    body: bytes


class HopTaken(Message, frozen=True, tag="ov.taken"):
    """Acknowledgement of a routed message, which the receiver has taken charge of now or before."""

    origin: bytes
    nonce: int


class Bye(Message, frozen=True, tag="ov.bye"):
    """Notice that the sender is leaving intentionally."""


MESSAGES: tuple[type[Message], ...] = (
    Ping,
    Pong,
    Find,
    Rows,
    Found,
    Beat,
    BeatBack,
    Relay,
    Relayed,
    Hop,
    HopTaken,
    Bye,
)
"""All message types of this room, for the codec."""

"""What agents of the overlay say to each other.

Owns the typed messages with the tag "ov.*"; refuses to know when they are sent or what follows. Every
request carries `rid`, a number the asker chose; its answer carries the same. The sender is never a field:
the transport says who a message came from (`Received.sender`), so no agent can speak for another.

Paper: ELF 2.3 (the substrate under JOIN, multicast and "messages routed by key").
"""

from __future__ import annotations

import msgspec

from elfmesh.machine import Contact, Count, Index, Message


class Obituary(msgspec.Struct, frozen=True, array_like=True):
    """Hearsay that an agent may be dead: a reason to ping it, never a reason to believe it.

    Attributes:
        id: of the agent.
        incarnation: the life it is said to have ended; a later boot is not concerned.
    """

    id: bytes
    incarnation: int


class Ping(Message, frozen=True, tag="ov.ping"):
    """Are you there? Also how a second-hand contact proves itself."""

    rid: int
    obituaries: tuple[Obituary, ...] = ()


class Pong(Message, frozen=True, tag="ov.pong"):
    """I am here."""

    rid: int
    obituaries: tuple[Obituary, ...] = ()


class Find(Message, frozen=True, tag="ov.find"):
    """Which `k` agents do you know closest to `key`?"""

    rid: int
    key: bytes
    k: int


class Rows(Message, frozen=True, tag="ov.rows"):
    """Send me your siblings and the active contact of every cell."""

    rid: int


class Found(Message, frozen=True, tag="ov.found"):
    """The answer to `Find` (closest first) and to `Rows`."""

    rid: int
    contacts: tuple[Contact, ...]


class Beat(Message, frozen=True, tag="ov.beat"):
    """The heartbeat of a pair of peers, with the upper layer's digest for the receiver.

    `ahead_us`: by how much the receiver's wall clock is ahead of the sender's, as far as that is known.
    """

    rid: int
    digest: bytes
    obituaries: tuple[Obituary, ...] = ()
    ahead_us: Index | None = None


class BeatBack(Message, frozen=True, tag="ov.beatback"):
    """The other half of a heartbeat; `clock_us`: what the sender's wall clock shows, 0 if it has none."""

    rid: int
    digest: bytes
    obituaries: tuple[Obituary, ...] = ()
    clock_us: Count = 0


class Relay(Message, frozen=True, tag="ov.relay"):
    """I cannot reach `target`: please ping it for me."""

    rid: int
    target: Contact


class Relayed(Message, frozen=True, tag="ov.relayed"):
    """Whether the target of a `Relay` answered."""

    rid: int
    alive: bool


class Hop(Message, frozen=True, tag="ov.hop"):
    """One hop of a routed message; the routed payload travels as the frame's payload.

    Attributes:
        origin: who routed it first; (origin.id, nonce) names the message for ever.
        nonce: chosen by the origin.
        key: where it wants to go.
        hops: made so far.
        body: the upper layer's header bytes.
    """

    origin: Contact
    nonce: int
    key: bytes
    hops: int
    body: bytes


class HopTaken(Message, frozen=True, tag="ov.taken"):
    """The receiver has taken charge of a routed message (or had before)."""

    origin: bytes
    nonce: int


class Bye(Message, frozen=True, tag="ov.bye"):
    """I am leaving now, on purpose."""


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

"""What agents of one tree say to each other.

Owns the typed messages with the tag "srt.*" and the segment, the unit of everything that goes up a tree.
Refuses to know when they are sent. The sender is never a field: the transport says who it was.

Messages that carry `seq` go up one hop reliably: the parent answers each with a `SegmentAck` of that
number, and the child sends again until it does. The number also orders them.

Paper: ELF 2.3 (JOIN, multicast), 3 (snapshots rolled up, Figure 9).
"""

from __future__ import annotations

import msgspec

from elfmesh.machine import Amount, Contact, Count, Id, Index, Message

FIRST = -(2**62)
"""As an interval index: since ever. Founding members contribute from here."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What a segment has for one interval.

    Attributes:
        interval: its index.
        counts: record counts per bucket; added up when entries are merged.
        size: payload bytes, 0 = no rows.
        rev: revision of one agent's contribution; above 1 only alone, in a segment of one interval.
    """

    interval: Index
    counts: tuple[Count, ...]
    size: Count = 0
    rev: Count = 1


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """The agents in coverage have nothing more for [start, stop) than these entries.

    Attributes:
        epoch: term of the master it is meant for.
        attempt: which collection of the range within the epoch.
        start: first interval.
        stop: one past the last interval.
        coverage: bitmap of roster numbers, little-endian bit order, no trailing zero bytes.
        entries: sorted by interval, at most one each, all within the range.
    """

    epoch: Count
    attempt: Count
    start: Index
    stop: Index
    coverage: bytes
    entries: tuple[Entry, ...] = ()


class ReceivedUpTo(msgspec.Struct, frozen=True, array_like=True):
    """Multicasts of one era are known up to `upto` without a gap."""

    era: Count
    upto: Count


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """[start, stop) is being collected as `attempt` by now: send your own contribution alone."""

    start: Index
    stop: Index
    attempt: Count


class Order(msgspec.Struct, frozen=True, array_like=True):
    """The body of a multicast to the forests themselves."""

    epoch: Count
    ranges: tuple[Refused, ...] = ()
    stop: Index = 0


class Join(Message, frozen=True, tag="srt.join"):
    """Let me be your child.

    Attributes:
        tree: id of the tree.
        token: of this request; the answers repeat it.
        session: random per life of the sender, so that a restart is not taken for a repetition.
        epoch: of the frontier.
        frontier: everything below it will come as supplements; None = contributes nothing (yet).
        received_upto: multicasts the sender has, per era.
        load: how many children it has.
        size: subscribed agents in its subtree.
        climb: it has a parent already and wants to sit higher: 1 only into a free slot near, more: so many
            hops towards the root, from where it is placed again; 0 is an ordinary join.
        hops: redirects it has followed.
    """

    tree: Id
    token: Count
    session: Count
    epoch: Count
    frontier: Index | None
    received_upto: tuple[ReceivedUpTo, ...] = msgspec.field(default=(), name="heard")
    load: Count = 0
    size: Count = 0
    climb: Count = 0
    hops: Count = 0


class Joined(Message, frozen=True, tag="srt.joined"):
    """You are my child, `depth` hops below the root, as one of `load`; below `released` all is closed."""

    tree: Id
    token: Count
    depth: Count
    load: Count
    epoch: Count
    released: Index


class Redirect(Message, frozen=True, tag="srt.redirect"):
    """Not me: ask `to`; None: the sender knows no other agent."""

    tree: Id
    token: Count
    to: Contact | None


class Leave(Message, frozen=True, tag="srt.leave"):
    """I am not your child any more. `token` is that of the join it ends."""

    tree: Id
    token: Count


class Reparent(Message, frozen=True, tag="srt.reparent"):
    """You are not my child any more: join `to` (a closer agent took your slot), or find a parent again."""

    tree: Id
    to: Contact | None


class Frontier(Message, frozen=True, tag="srt.frontier"):
    """From now on I claim from `frontier` on; None = do not wait for me."""

    tree: Id
    seq: Count
    epoch: Count
    frontier: Index | None


class SegmentUp(Message, frozen=True, tag="srt.segment"):
    """A segment; the payload is the concatenation of its entries' payloads.

    Attributes:
        tree: id of the tree.
        seq: hop sequence number.
        segment: what is said.
        claims: the sender's frontier moves over the range; otherwise a supplement.
        alone: never to be merged on the way (sent before, or collected again).
        released: intervals below are closed, as far as the sender knows.
    """

    tree: Id
    seq: Count
    segment: Segment
    claims: bool
    alone: bool
    released: Index


class SegmentAck(Message, frozen=True, tag="srt.segment_ack"):
    """The message `seq` need not come again.

    Attributes:
        tree: id of the tree.
        seq: of the acknowledged message.
        epoch: the highest the parent knows; a lower one of the child's is over.
        released: intervals below are closed, as far as the parent knows.
        refused: ranges whose attempt was too low.
    """

    tree: Id
    seq: Count
    epoch: Count
    released: Index
    refused: tuple[Refused, ...] = ()


class Overlap(Message, frozen=True, tag="srt.overlap"):
    """Two partials of [start, stop) overlapped in attempt `attempt`; goes to the root.

    `lagging`: none did, but an agent has not heard that `attempt` is on.
    """

    tree: Id
    seq: Count
    epoch: Count
    start: Index
    stop: Index
    attempt: Count
    lagging: bool = False


class Fault(Message, frozen=True, tag="srt.fault"):
    """Contributions of `coverage` to [start, stop) were dropped for `error`; goes to the root."""

    tree: Id
    seq: Count
    epoch: Count
    start: Index
    stop: Index
    coverage: bytes
    error: str


class Multicast(Message, frozen=True, tag="srt.multicast"):
    """A message for the whole subtree; the payload is its body.

    Attributes:
        tree: id of the tree.
        era: random per term of a root.
        seq: counts 1, 2, ... within the era.
        kind: 0 for subscribers, 1 a `Recollect` order, 2 a `Hasten` order (for every agent of the tree).
        budget_s: answers that come later than this are lost; 0 = none wanted.
    """

    tree: Id
    era: Count
    seq: Count
    kind: Count
    budget_s: Amount


class MulticastAck(Message, frozen=True, tag="srt.multicast_ack"):
    """The multicast is here; if `final`, the payload has all answers of the subtree that came in time."""

    tree: Id
    era: Count
    seq: Count
    final: bool
    expected: Count = 0


class Pull(Message, frozen=True, tag="srt.pull"):
    """Send me the multicasts I have not heard."""

    tree: Id
    received_upto: tuple[ReceivedUpTo, ...] = msgspec.field(name="heard")


MESSAGES: tuple[type[Message], ...] = (
    Join,
    Joined,
    Redirect,
    Leave,
    Reparent,
    Frontier,
    SegmentUp,
    SegmentAck,
    Overlap,
    Fault,
    Multicast,
    MulticastAck,
    Pull,
)
"""All message types of this room, for the codec."""

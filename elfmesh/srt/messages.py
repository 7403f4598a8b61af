"""Messages between the agents of one tree.

Owns the typed messages with the tag "srt.*" and the segment, the unit of everything that goes up a tree. Does
not decide when they are sent. The sender is never a field, because the transport authenticates it.

Messages with `seq` go up one hop reliably: the parent answers each with a `SegmentAck` of that number, and
the child repeats it until then. The number also orders them.

Paper: ELF 2.3 (JOIN, multicast), 3 (snapshots rolled up, Figure 9).
"""

from __future__ import annotations

import msgspec

from elfmesh.machine import Amount, Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.residency import ANYWHERE, Rule

FIRST = -(2**62)
"""Interval index before all others. Founding members contribute from here on."""


class SegmentEntry(msgspec.Struct, frozen=True, array_like=True):
    """Contribution of a segment to one interval.

    Attributes:
        interval: its index.
        counts: record counts per bucket; merging adds them.
        size: payload bytes, 0 = no rows.
        rev: revision of one agent's contribution; a revision above 1 is alone in a segment of one interval.
    """

    interval: Index
    counts: tuple[Count, ...]
    size: Count = 0
    rev: Count = 1


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Segment: the agents in `coverage` have nothing more for [start, stop) than these entries.

    Attributes:
        epoch: the roster epoch of the job; a tree refuses what is of a lower one.
        attempt: number of the collection of the range within the epoch.
        start: first interval.
        stop: one past the last interval.
        coverage: bitmap of roster numbers, little-endian bit order, no trailing zero bytes.
        entries: sorted by interval, at most one each, all within the range.
        keep_in: which agents may get it. Earlier releases ignore it, so they get none with a rule
            (`Joined.keeps`).
    """

    epoch: Count
    attempt: Count
    start: Index
    stop: Index
    coverage: bytes
    entries: tuple[SegmentEntry, ...] = ()
    keep_in: Rule = ANYWHERE


class ReceivedUpTo(msgspec.Struct, frozen=True, array_like=True):
    """All multicasts of one era up to `upto` have been received."""

    era: Count
    upto: Count


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """Notice that [start, stop) is collected as `attempt`: the child sends its own contribution unmerged."""

    start: Index
    stop: Index
    attempt: Count


class Order(msgspec.Struct, frozen=True, array_like=True):
    """Body of a multicast to the forests themselves."""

    epoch: Count
    ranges: tuple[Refused, ...] = ()
    stop: Index = 0


class Join(Message, frozen=True, tag="srt.join"):
    """Request of an agent to become the receiver's child.

    Attributes:
        tree: id of the tree.
        token: token of this request; the answers repeat it.
        session: random per boot of the sender, so that a restart is not treated as a repetition.
        epoch: epoch of the frontier.
        frontier: everything below it will arrive as supplements; None = it contributes nothing (yet).
        received_upto: multicasts that the sender has, per era.
        load: number of its children.
        size: subscribed agents in its subtree.
        climb: 0 for an ordinary join. Otherwise the sender has a parent and wants to be higher: 1 accepts
            only a free slot nearby; a greater number is the number of hops to the root, which places it
            again.
        hops: redirects that it has followed.
        keep_in: rule of its contributions.
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
    keep_in: Rule = ANYWHERE


class Joined(Message, frozen=True, tag="srt.joined"):
    """Acceptance of a child: its parent is `depth` hops below the root and has `load` children.

    Intervals below `released` are closed. `keeps`: the parent keeps the rule of the JOIN; one of an earlier
    release does not.
    """

    tree: Id
    token: Count
    depth: Count
    load: Count
    epoch: Count
    released: Index
    keeps: bool = False


class Redirect(Message, frozen=True, tag="srt.redirect"):
    """Refusal of a join: ask `to` instead; None: the sender knows no other agent."""

    tree: Id
    token: Count
    to: Contact | None


class Leave(Message, frozen=True, tag="srt.leave"):
    """Notice that the sender is no longer the receiver's child. `token` is that of the join which it ends."""

    tree: Id
    token: Count


class Reparent(Message, frozen=True, tag="srt.reparent"):
    """Notice that the receiver has lost its slot: it must join `to` (a closer agent), or search."""

    tree: Id
    to: Contact | None


class Frontier(Message, frozen=True, tag="srt.frontier"):
    """Notice that the sender's claims start at `frontier`; None = do not wait for it."""

    tree: Id
    seq: Count
    epoch: Count
    frontier: Index | None


class SegmentUp(Caused, frozen=True, tag="srt.segment"):
    """Segment on its way up; the payload is the concatenation of its entries' payloads.

    Attributes:
        tree: id of the tree.
        seq: hop sequence number.
        segment: the segment.
        claims: the sender's frontier moves over the range; otherwise the segment is a supplement.
        alone: must not be merged on the way (sent before, or collected again).
        released: intervals below are closed, as far as the sender knows.
    """

    tree: Id
    seq: Count
    segment: Segment
    claims: bool
    alone: bool
    released: Index


class SegmentAck(Message, frozen=True, tag="srt.segment_ack"):
    """Acknowledgement of the message `seq`.

    Attributes:
        tree: id of the tree.
        seq: number of the acknowledged message.
        epoch: the highest epoch that the parent knows; a lower epoch of the child has ended.
        released: intervals below are closed, as far as the parent knows.
        refused: ranges whose attempt was too low.
    """

    tree: Id
    seq: Count
    epoch: Count
    released: Index
    refused: tuple[Refused, ...] = ()


class Overlap(Message, frozen=True, tag="srt.overlap"):
    """Report to the root: two partials of [start, stop) overlapped in attempt `attempt`.

    `lagging`: there was no overlap, but an agent has not received the order for `attempt`.
    """

    tree: Id
    seq: Count
    epoch: Count
    start: Index
    stop: Index
    attempt: Count
    lagging: bool = False


class Fault(Message, frozen=True, tag="srt.fault"):
    """Report to the root: contributions of `coverage` to [start, stop) were dropped because of `error`."""

    tree: Id
    seq: Count
    epoch: Count
    start: Index
    stop: Index
    coverage: bytes
    error: str


class Multicast(Message, frozen=True, tag="srt.multicast"):
    """Message for the whole subtree; the payload is its body.

    Attributes:
        tree: id of the tree.
        era: random per term of a root.
        seq: counts 1, 2, ... within the era.
        kind: 0 for subscribers, 1 a `Recollect` order, 2 a `Hasten` order (for every agent of the tree).
        budget_s: time for answers, after which they are lost; 0 = no answers.
    """

    tree: Id
    era: Count
    seq: Count
    kind: Count
    budget_s: Amount


class MulticastAck(Message, frozen=True, tag="srt.multicast_ack"):
    """Acknowledgement of a multicast; if `final`, the payload has all timely answers of the subtree."""

    tree: Id
    era: Count
    seq: Count
    final: bool
    expected: Count = 0


class Pull(Message, frozen=True, tag="srt.pull"):
    """Request for the multicasts that the sender has missed."""

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

"""One tree at one agent: connects membership, barrier, uplink and multicast.

Owns only the dispatch between the parts, which have the rules.

Paper: ELF 2.3 and 3 (the SRT proxy of a job worker).
"""

from __future__ import annotations

import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message, earliest
from elfmesh.srt import digest
from elfmesh.srt.barrier import Barrier
from elfmesh.srt.context import Context
from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.events import Collected, Contribute, PartsDropped, Recollecting, TreeInfo
from elfmesh.srt.membership import Membership
from elfmesh.srt.messages import (
    Fault,
    Frontier,
    Join,
    Joined,
    Leave,
    Multicast,
    MulticastAck,
    Order,
    Overlap,
    Pull,
    Redirect,
    Refused,
    Reparent,
    SegmentAck,
    SegmentUp,
)
from elfmesh.srt.multicast import HASTEN, RECOLLECT, USER, Multicasts
from elfmesh.srt.parts import Part, check_segment, run_of, unpack
from elfmesh.srt.reports import Reports
from elfmesh.srt.residency import ANYWHERE, Rule
from elfmesh.srt.uplink import Uplink


class Tree:
    """Tree at one agent. Implements `ports.Tenant` and `ports.TreeOwner`."""

    def __init__(
        self,
        context: Context,
        tree: bytes,
        *,
        session: int,
        fanout: int,
        payload_bytes_max: int,
        held_bytes_max: int,
    ) -> None:
        self.id = tree
        self._context = context
        self._session = session
        self._payload_bytes_max = payload_bytes_max
        self._reports = Reports(context.count)
        self.uplink = Uplink(context, tree, self, payload_bytes_max)
        self.barrier = Barrier(
            self.uplink,
            self._request_merge,
            context.count,
            payload_bytes_max=payload_bytes_max,
            held_bytes_max=held_bytes_max,
        )
        self.uplink.barrier = self.barrier
        self.membership = Membership(context, tree, self, self.uplink.next_seq, fanout)
        self.multicasts = Multicasts(context, tree, self._ordered, self._contacts, self._size_of)

    # -- requests of the host

    def subscribe(self, now: float, via: tuple[Contact, ...] = (), keep_in: Rule = ANYWHERE) -> None:
        self.membership.search.via = via
        if not self.multicasts.subscribed:
            self.multicasts.subscribe()
        if keep_in:
            self.membership.keep(keep_in, now)
        self.membership.enter(now)

    def unsubscribe(self) -> None:
        self.multicasts.subscribed = False
        self.barrier.retire()

    def contribute(self, event: Contribute) -> None:
        """Add the host's own segment.

        Raises:
            ValueError: The payloads do not fit the entries, or the segment is malformed.
        """
        segment, payloads = event.segment, event.payloads
        sizes = tuple(entry.size for entry in segment.entries)
        if tuple(len(payload) for payload in payloads) != sizes:
            raise ValueError(f"payloads of {[len(p) for p in payloads]} bytes for entries of {list(sizes)}")
        try:
            check_segment(segment)
        except ProtocolError as error:
            raise ValueError(f"own contribution: {error}") from None
        items = run_of(segment.entries, payloads)
        part = Part(segment.start, segment.stop, bits_of(segment.coverage), items, keep_in=segment.keep_in)
        self.barrier.contribute(part, segment.epoch)

    def publish(self, body: bytes, timeout_s: float, token: int, now: float) -> None:
        self._check_root("publish")
        self.multicasts.publish(USER, body, timeout_s, token, now)

    def recollect(self, epoch: int, ranges: tuple[Refused, ...], now: float) -> None:
        """Order all agents to send their own contributions again."""
        self._check_root("recollect")
        self.multicasts.publish(RECOLLECT, msgspec.msgpack.encode(Order(epoch, ranges)), 0.0, 0, now)

    def hasten(self, epoch: int, stop: int, now: float) -> None:
        """Order all agents to stop waiting below `stop`."""
        self._check_root("hasten")
        self.multicasts.publish(HASTEN, msgspec.msgpack.encode(Order(epoch, (), stop)), 0.0, 0, now)

    def release(self, stop: int, epoch: int) -> None:
        """Drop intervals below `stop`, which are closed in `epoch`.

        What an earlier epoch had closed is void.
        """
        if epoch >= self.barrier.epoch and self.barrier.meet(epoch) and stop > self.barrier.released:
            self.barrier.release(stop)
            self.uplink.release(stop)

    def _check_root(self, what: str) -> None:
        if not self.membership.root:
            raise ValueError(f"only the root may {what} in tree {self.id.hex()}")

    # -- messages of peers

    def received(self, sender: Contact, message: Message, payload: bytes, now: float) -> None:
        match message:
            case SegmentUp():
                self._segment(sender, message, payload)
            case SegmentAck():
                self._acknowledged(message)
            case Frontier():
                self._frontier(sender, message)
            case Join():
                self.membership.asked(sender, message, now)
            case Joined():
                self.membership.joined(sender, message, now)
            case Redirect():
                self.membership.search.redirected(sender, message, now)
            case Leave():
                self.membership.left(sender, message)
            case Reparent():
                self.membership.reparented(sender, message.to, now)
            case Multicast():
                self.multicasts.received(sender, message, payload, now)
            case MulticastAck():
                self.multicasts.acknowledged(sender, message, payload)
            case Pull():
                if sender.id in self.membership.children:
                    self.multicasts.child_joined(sender, message.received_upto, now)
            case Overlap():
                if message.epoch == self.barrier.epoch and message.start < message.stop:
                    start, stop, attempt = message.start, message.stop, message.attempt
                    self.uplink.report(start, stop, attempt, lagging=message.lagging)
                self._acknowledge(sender, message.seq)
            case Fault():
                if message.epoch == self.barrier.epoch and message.start < message.stop:
                    coverage = bits_of(message.coverage)
                    self.uplink.fault(message.start, message.stop, coverage, message.error)
                self._acknowledge(sender, message.seq)
            case _:
                self._context.count("unknown_message")

    def _segment(self, sender: Contact, message: SegmentUp, payload: bytes) -> None:
        refused: tuple[Refused, ...] | None = ()
        try:
            part = unpack(message.segment, payload, sender.id, alone=message.alone)
        except ProtocolError:
            self._context.count("malformed")
        else:
            self.release(message.released, message.segment.epoch)
            refused = self.barrier.receive(part, message.segment.epoch, claims=message.claims)
        if refused is not None:
            self._acknowledge(sender, message.seq, refused)

    def _acknowledge(self, sender: Contact, seq: int, refused: tuple[Refused, ...] = ()) -> None:
        epoch, released = self.barrier.epoch, self.barrier.released
        self._context.send(sender, SegmentAck(self.id, seq, epoch, released, refused))

    def _acknowledged(self, message: SegmentAck) -> None:
        self.uplink.acknowledged(message.seq)
        if message.epoch >= self.barrier.epoch and self.barrier.meet(message.epoch):
            for each in message.refused:
                self.barrier.recollect(message.epoch, each.start, each.stop, each.attempt, ordered=False)
        self.release(message.released, message.epoch)

    def _frontier(self, sender: Contact, message: Frontier) -> None:
        child = self.membership.children.get(sender.id)
        if child is not None and message.seq > child.order:
            child.order = message.seq
            self.barrier.child_joined(sender.id, message.epoch, message.frontier)
        self._acknowledge(sender, message.seq)

    # -- digests

    def row(self, peer: bytes) -> digest.Row | None:
        relation = digest.PARENT if peer in self.membership.children else digest.CHILD
        parent = self.membership.parent
        if relation == digest.CHILD and (parent is None or parent.id != peer):
            return None
        era, seq = self.multicasts.newest
        load = len(self.membership.children)
        prefix = self.id[: digest.PREFIX_BYTES]
        quiet = not len(self.uplink) and not self.barrier.merging
        standing = self.barrier.standing if quiet else None
        front = digest.UNKNOWN if standing is None else standing
        depth, epoch = self.membership.depth, self.barrier.epoch
        return digest.Row(prefix, relation, depth, load, self.size, era, seq, epoch, front)

    @property
    def state(self) -> tuple[object, ...]:
        """What the rows of a digest are made from."""
        place = self.membership
        parent = None if place.parent is None else place.parent.id
        front = (self.barrier.epoch, self.barrier.standing, self.barrier.merging, len(self.uplink))
        return (place.depth, parent, len(place.children), self.size, self.multicasts.newest, *front)

    def agrees(self, peer: bytes, row: digest.Row) -> bool:
        """Whether a peer's row leaves nothing to do and nothing to wait for."""
        if row.relation == digest.CHILD:
            return peer in self.membership.children
        parent = self.membership.parent
        return parent is not None and parent.id == peer and self.multicasts.has(row.era, row.seq)

    def notified(self, peer: bytes, row: digest.Row | None, now: float) -> None:
        """Process a peer's digest of this tree; None = the peer has no row for it."""
        is_parent = row is not None and row.relation == digest.PARENT
        is_child = row is not None and row.relation == digest.CHILD
        self.membership.notified_child(
            peer, (row.load, row.size) if row is not None and is_child else None, now
        )
        above = (row.depth, row.load) if row is not None and is_parent else None
        self.membership.notified_parent(peer, above, now)
        if row is not None and is_child and row.epoch == self.barrier.epoch and row.front != digest.UNKNOWN:
            self.barrier.child_stands(peer, row.front)
        parent = self.membership.parent
        if row is not None and is_parent and parent is not None and parent.id == peer:
            self.multicasts.notified(parent, row.era, row.seq, now)

    # -- ports.Tenant

    def joining(self, token: int, *, climb: int, hops: int) -> Join:
        return Join(
            self.id,
            token,
            self._session,
            self.barrier.epoch,
            self.barrier.standing,
            self.multicasts.received_upto,
            len(self.membership.children),
            self.size,
            climb,
            hops,
            self.membership.keep_in,
        )

    def attached(self, parent: Contact, join: Join, joined: Joined) -> None:
        self.uplink.attach(parent, keeps=joined.keeps)
        self.release(joined.released, joined.epoch)
        notified = join.epoch == self.barrier.epoch == joined.epoch
        self.barrier.opened(join.frontier if notified else None)

    def detached(self) -> None:
        self.uplink.attach(None)
        self.barrier.closed()

    def became_root(self) -> None:
        self.uplink.become_root()
        self.multicasts.begin_era()
        self.barrier.opened(None)

    def lost_root(self) -> None:
        self.detached()

    def child_joined(self, child: Contact, join: Join) -> None:
        self.barrier.child_joined(child.id, join.epoch, join.frontier)
        self.multicasts.child_joined(child, join.received_upto, self._context.now)

    def child_left(self, child: bytes) -> None:
        self.barrier.child_left(child)
        self.multicasts.child_left(child)

    def joined_reply(self, token: int, depth: int) -> Joined:
        load = len(self.membership.children)
        return Joined(self.id, token, depth, load, self.barrier.epoch, self.barrier.released, keeps=True)

    # -- ports.TreeOwner

    def collected(self, part: Part) -> None:
        payloads = tuple(item.payload for item in part.items)
        self._context.emit(Collected(self.id, part.segment(self.barrier.epoch), payloads))

    def overlapped(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        """Schedule an order to collect a range again, or its repetition, together with others."""
        self._reports.add(start, stop, attempt, lagging=lagging, now=self._context.now)

    def dropped(self, start: int, stop: int, coverage: int, error: str) -> None:
        epoch = self.barrier.epoch
        self._context.emit(PartsDropped(self.id, epoch, start, stop, bitmap_of(coverage), error))

    # -- multicasts for the forest itself

    def _ordered(self, kind: int, body: bytes) -> None:
        try:
            order = msgspec.msgpack.decode(body, type=Order)
        except (msgspec.DecodeError, msgspec.ValidationError):
            self._context.count("malformed")
            return
        if kind == HASTEN:
            self.barrier.hasten(order.epoch, order.stop)
        elif kind == RECOLLECT:
            for each in order.ranges:
                self.barrier.recollect(order.epoch, each.start, each.stop, each.attempt, ordered=True)
        else:
            self._context.count("unknown_message")

    def _recollect_overlaps(self, now: float) -> None:
        """Order the reported ranges, unless they were ordered already."""
        wanted = self._reports.take(self.barrier)
        if wanted and self.membership.root:
            epoch = self.barrier.epoch
            for each in wanted:
                self._context.emit(Recollecting(self.id, epoch, each.start, each.stop, each.attempt))
            self.recollect(epoch, wanted, now)

    # -- upkeep

    def tick(self, now: float) -> bool:
        """Do what is due; return whether a row of a digest may change, which no search changes."""
        due = earliest(self.uplink.deadline, self.multicasts.deadline, self._reports.due)
        self.membership.tick(now)
        self.uplink.tick(now)
        self.multicasts.tick(now)
        if self._reports.due is not None and self._reports.due <= now:
            self._recollect_overlaps(now)
        return due is not None and due <= now

    @property
    def deadline(self) -> float | None:
        return earliest(
            self.membership.deadline, self.uplink.deadline, self.multicasts.deadline, self._reports.due
        )

    @property
    def needless(self) -> bool:
        """Return whether no agent here or below needs the tree and nothing is on its way up."""
        wanted = self.multicasts.subscribed or self.membership.children or self.barrier.merging
        return not wanted and not (self.uplink.parent is not None and len(self.uplink))

    @property
    def size(self) -> int:
        """Return the known number of subscribed agents in this subtree."""
        below = sum(child.size for child in self.membership.children.values())
        return below + (1 if self.multicasts.subscribed else 0)

    @property
    def info(self) -> TreeInfo:
        place, barrier = self.membership, self.barrier
        return TreeInfo(
            self.id,
            self.multicasts.subscribed,
            place.root,
            place.parent,
            tuple(self._contacts()),
            place.depth,
            self.size,
            barrier.epoch,
            barrier.front,
            barrier.released,
            barrier.held_bytes,
            len(self.uplink),
        )

    def _contacts(self) -> list[Contact]:
        return [child.contact for child in self.membership.children.values()]

    def _size_of(self, child: bytes) -> int:
        known = self.membership.children.get(child)
        return known.size if known is not None else 0

    def _request_merge(self, interval: int, parts: tuple[bytes, ...]) -> int:
        return self._context.request_merge(self.id, interval, parts)

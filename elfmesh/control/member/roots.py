"""Roots of trees whose master is another agent: pass on what is collected, and hold it until it is closed.

Owns the parts of these trees, their consumers, and what each consumer lacks. Merges and closes nothing.

Invariants: a root sends a part to each consumer, the master and its sites, until that has acknowledged it.
Only the master is waited for: a site that is gone takes no room, and neither does a master whose path is
idle. An acknowledgement frees nothing, because a consumer that comes later has to get everything that is not
closed. A part is dropped when its intervals are closed, or when a new roster epoch collects everything again.
At most `HELD_PARTS_MAX` parts of one tree are held: without room, the oldest parts that the master does not
lack are dropped first, and then new ones, which are collected again.

Paper: ELF 2.3 ("for partitioning functions like WordCount, we build m aggregation trees"); "Replicated
processing over wide areas" II-B (a stage buffers its output for all replicas of the next one).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages_parts import Part, PartAck, PartFault, PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.srt.events import Collected, Hasten, PartsDropped, Recollect, Release
from elfmesh.srt.messages import FIRST, Segment
from elfmesh.srt.residency import allows

AGAIN_S = 1.0
HELD_PARTS_MAX = 512
HELD_BYTES_MAX = 64 << 20
TREES_MAX = 10_000
BULK_LANE = 3
REPEATED_MAX = 16


@dataclass(slots=True)
class _Consumer:
    """An agent that gets the parts of a tree, and the numbers of those that it has not acknowledged."""

    contact: Contact
    lacks: dict[int, None]

    def may_get(self, segment: Segment) -> bool:
        return allows(segment.keep_in, self.contact)


@dataclass(slots=True)
class _Tree:
    """One tree this agent is the root of. `lost` is the range and highest attempt of dropped parts.

    While it is `idle`, the master gets no parts.
    """

    job: bytes = b""
    partition: int = 0
    stated: bytes | msgspec.UnsetType = msgspec.UNSET
    master: Contact | None = None
    epoch: int = -1
    roster_epoch: int = -1
    consumers: dict[bytes, _Consumer] = field(default_factory=dict)
    parts: OrderedDict[int, tuple[Segment, bytes]] = field(default_factory=OrderedDict)
    nbytes: int = 0
    seq: int = 0
    closed: int = FIRST
    lost: tuple[int, int, int] | None = None
    idle: bool = False
    repeating: bool = False

    @property
    def is_behind(self) -> bool:
        """Whether a part is still on its way to the master."""
        if self.idle:
            return False
        return any(each.lacks for each in self._awaited) if self.consumers else bool(self.parts)

    @property
    def _awaited(self) -> list[_Consumer]:
        """The master; all consumers while it is not one of them."""
        master = None if self.master is None else self.consumers.get(self.master.id)
        return list(self.consumers.values()) if master is None else [master]

    @property
    def repeats(self) -> bool:
        """Whether a part is still on its way to anyone."""
        return self.is_behind or any(each.lacks for each in self.consumers.values())

    def is_lacked(self, seq: int) -> bool:
        if self.idle:
            return False
        return not self.consumers or any(seq in each.lacks for each in self._awaited)

    def lose(self, segment: Segment) -> None:
        """A part of a segment is dropped that the master is to have."""
        start, stop, attempt = self.lost or (segment.start, segment.stop, segment.attempt)
        self.lost = min(start, segment.start), max(stop, segment.stop), max(attempt, segment.attempt)

    def drop(self, seq: int) -> None:
        _, payload = self.parts.pop(seq)
        self.nbytes -= len(payload)
        for consumer in self.consumers.values():
            consumer.lacks.pop(seq, None)

    def has_room(self, nbytes: int) -> bool:
        """Whether a part can be held, if necessary instead of the oldest that no consumer lacks."""
        for seq in [seq for seq in self.parts if not self.is_lacked(seq)] if self._is_full(nbytes) else ():
            if self.idle:
                self.lose(self.parts[seq][0])  # a revived path is to have it
            self.drop(seq)
            if not self._is_full(nbytes):
                break
        return not self._is_full(nbytes)

    def _is_full(self, nbytes: int) -> bool:
        return len(self.parts) >= HELD_PARTS_MAX or self.nbytes + nbytes > HELD_BYTES_MAX


def _key(message: PartRoot | PartAck | TreeOrder) -> bytes:
    return message.tree or ids.partition_tree(message.job, message.partition)


class Roots:
    """All trees of other masters whose root is this agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trees: OrderedDict[bytes, _Tree] = OrderedDict()

    def collected(self, event: Collected) -> None:
        """A merged part has arrived at the top of its tree."""
        tree = self._of(event.tree)
        payload = b"".join(event.payloads)
        if not tree.has_room(len(payload)):
            tree.lose(event.segment)
            self._context.stats["control.parts_dropped"] += 1
            return
        tree.seq += 1
        tree.parts[tree.seq] = (event.segment, payload)
        tree.nbytes += len(payload)
        for consumer in [each for each in tree.consumers.values() if each.may_get(event.segment)]:
            consumer.lacks[tree.seq] = None
            self._send(tree, consumer, tree.seq)
        self._repeat_later(tree)

    def dropped(self, event: PartsDropped) -> None:
        """Contributions to this tree cannot be merged: the master has to know whose."""
        tree = self._trees.get(event.tree)
        if tree is not None and tree.master is not None:
            fault = PartFault(
                tree.job,
                tree.partition,
                event.epoch,
                event.start,
                event.stop,
                event.coverage,
                event.error,
            )
            self._context.send(tree.master, fault)

    def on_part_root(self, message: PartRoot) -> None:
        """A master says that it leads the job of a tree whose root we are."""
        key = _key(message)
        tree = self._of(key)
        if message.epoch < tree.epoch:
            self._context.stats["control.fenced"] += 1
            return
        is_new = message.epoch > tree.epoch
        if is_new:
            tree.job, tree.partition, tree.stated = message.job, message.partition, message.tree
            self._begin(tree, message.master, message.epoch, message.roster_epoch)
        if message.closed > tree.closed:
            tree.closed = message.closed
            for seq in [seq for seq, (segment, _) in tree.parts.items() if segment.stop <= message.closed]:
                tree.drop(seq)
        master = () if message.idle else (tree.master or message.master,)
        tree.idle = bool(message.idle)
        consumers = {each.id: each for each in (*master, *(message.sites or ()))}
        if is_new or consumers.keys() != tree.consumers.keys():
            self.serve(key, consumers.values())
        self._context.emit(Release(key, message.closed, message.roster_epoch))
        self._collect_lost(key, tree)

    def follow(self, job: bytes, master: Contact, epoch: int, roster_epoch: int) -> None:
        """This agent is the root of a job's own tree, but another leads the job."""
        tree = self._of(job)
        if epoch > tree.epoch:
            tree.job, tree.partition = job, 0
            self._begin(tree, master, epoch, roster_epoch)
            self.serve(job, (master,))

    def serve(self, key: bytes, consumers: Iterable[Contact]) -> None:
        """These agents get the parts of a tree from now on; a new one gets all parts that are held."""
        tree = self._of(key)
        before, tree.consumers = tree.consumers, {}
        for contact in consumers:
            known = before.get(contact.id)
            consumer = tree.consumers[contact.id] = _Consumer(contact, {} if known is None else known.lacks)
            for seq, (segment, _) in tree.parts.items() if known is None else ():
                if consumer.may_get(segment):
                    consumer.lacks[seq] = None
                    self._send(tree, consumer, seq)
        if tree.repeats:
            self._repeat_later(tree)

    def on_part_ack(self, sender: Contact, message: PartAck) -> None:
        key = _key(message)
        tree = self._trees.get(key)
        consumer = None if tree is None else tree.consumers.get(sender.id)
        if tree is None or consumer is None:
            return
        consumer.lacks.pop(message.seq, None)
        self._collect_lost(key, tree)

    def _collect_lost(self, key: bytes, tree: _Tree) -> None:
        """Collect the dropped parts again as soon as all others have arrived."""
        if tree.lost is not None and tree.lost[1] <= tree.closed:
            tree.lost = None
        if tree.lost is not None and not (tree.is_behind or tree.idle) and key in self._context.roots:
            start, stop, attempt = tree.lost
            self._context.emit(Recollect(key, start, stop, attempt + 1, tree.roster_epoch))
            tree.lost = None

    def on_tree_order(self, message: TreeOrder) -> None:
        """The master wants a range again, or not to be kept waiting for it."""
        key = _key(message)
        tree = self._trees.get(key)
        if tree is None or message.epoch < tree.epoch or key not in self._context.roots:
            return
        if message.recollect:
            about = (message.start, message.stop, message.attempt, message.roster_epoch)
            self._context.emit(Recollect(key, *about))
        else:
            self._context.emit(Hasten(key, message.stop, message.roster_epoch))

    def lost(self, key: bytes) -> None:
        """Another agent is the root now; what is on its way is collected there again."""
        tree = self._trees.pop(key, None)
        if tree is not None:
            self._forget(tree)

    @staticmethod
    def _forget(tree: _Tree) -> None:
        """Send nothing of a tree any more: no acknowledgement would find it."""
        tree.parts.clear()
        tree.consumers.clear()

    def _of(self, key: bytes) -> _Tree:
        tree = self._trees.setdefault(key, _Tree())
        self._trees.move_to_end(key)
        while len(self._trees) > TREES_MAX:
            self._forget(self._trees.popitem(last=False)[1])
        return tree

    @staticmethod
    def _begin(tree: _Tree, master: Contact, epoch: int, roster_epoch: int) -> None:
        tree.master, tree.epoch = master, epoch
        if roster_epoch > tree.roster_epoch:
            tree.roster_epoch, tree.closed, tree.lost = roster_epoch, FIRST, None
            for seq in [seq for seq, (segment, _) in tree.parts.items() if segment.epoch < roster_epoch]:
                tree.drop(seq)
        tree.consumers.clear()  # the agent that leads again may have lost what it had acknowledged

    def _send(self, tree: _Tree, consumer: _Consumer, seq: int) -> None:
        segment, payload = tree.parts[seq]
        part = Part(tree.job, tree.partition, seq, segment, tree.stated)
        self._context.send(consumer.contact, part, payload, lane=BULK_LANE)

    def _repeat_later(self, tree: _Tree) -> None:
        if not tree.repeating:
            tree.repeating = True
            self._context.after(self._context.jittered(AGAIN_S), lambda: self._repeat(tree))

    def _repeat(self, tree: _Tree) -> None:
        tree.repeating = False
        for consumer in tree.consumers.values():
            for seq in list(consumer.lacks)[:REPEATED_MAX]:
                self._send(tree, consumer, seq)
        if tree.repeats:
            self._repeat_later(tree)

"""Roots of trees whose master is another agent: pass on what is collected, until it is acknowledged.

Owns the parts on their way to a master. Merges and closes nothing.

Invariants: a part is kept until the master has acknowledged it, or a new roster epoch collects everything
again; at most `HELD_PARTS_MAX` parts of one tree are kept, and what had to be dropped is collected again.

Paper: ELF 2.3 ("for partitioning functions like WordCount, we build m aggregation trees").
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages_parts import Part, PartAck, PartFault, PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.srt.events import Collected, Hasten, PartsDropped, Recollect, Release
from elfmesh.srt.messages import Segment

AGAIN_S = 1.0
HELD_PARTS_MAX = 512
HELD_BYTES_MAX = 64 << 20
TREES_MAX = 10_000
BULK_LANE = 3


@dataclass(slots=True)
class _Tree:
    """One tree this agent is the root of. `lost` is the range and highest attempt of dropped parts."""

    job: bytes = b""
    partition: int = 0
    master: Contact | None = None
    epoch: int = -1
    roster_epoch: int = -1
    parts: OrderedDict[int, tuple[Segment, bytes]] = field(default_factory=OrderedDict)
    nbytes: int = 0
    seq: int = 0
    lost: tuple[int, int, int] | None = None
    repeating: bool = False


class Roots:
    """All trees of other masters whose root is this agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trees: OrderedDict[bytes, _Tree] = OrderedDict()

    def collected(self, event: Collected) -> None:
        """A merged part has arrived at the top of its tree."""
        tree = self._of(event.tree)
        payload = b"".join(event.payloads)
        if len(tree.parts) >= HELD_PARTS_MAX or tree.nbytes + len(payload) > HELD_BYTES_MAX:
            segment = event.segment
            start, stop, attempt = tree.lost or (segment.start, segment.stop, segment.attempt)
            tree.lost = (
                min(start, segment.start),
                max(stop, segment.stop),
                max(attempt, segment.attempt),
            )
            self._context.stats["control.parts_dropped"] += 1
            return
        tree.seq += 1
        tree.parts[tree.seq] = (event.segment, payload)
        tree.nbytes += len(payload)
        self._send(tree, tree.seq)
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
        key = ids.partition_tree(message.job, message.partition)
        tree = self._of(key)
        if message.epoch < tree.epoch:
            self._context.stats["control.fenced"] += 1
            return
        if message.epoch > tree.epoch:
            tree.job, tree.partition = message.job, message.partition
            tree.master, tree.epoch = message.master, message.epoch
            self._begin(tree, message.roster_epoch)
            for seq in tree.parts:
                self._send(tree, seq)
        self._context.emit(Release(key, message.closed, message.roster_epoch))

    def follow(self, job: bytes, master: Contact, epoch: int, roster_epoch: int) -> None:
        """This agent is the root of a job's own tree, but another leads the job."""
        tree = self._of(job)
        if epoch > tree.epoch:
            tree.job, tree.partition, tree.master, tree.epoch = job, 0, master, epoch
            self._begin(tree, roster_epoch)
            for seq in tree.parts:
                self._send(tree, seq)

    def on_part_ack(self, message: PartAck) -> None:
        key = ids.partition_tree(message.job, message.partition)
        tree = self._trees.get(key)
        if tree is None:
            return
        part = tree.parts.pop(message.seq, None)
        if part is not None:
            tree.nbytes -= len(part[1])
        if tree.lost is not None and not tree.parts and key in self._context.roots:
            start, stop, attempt = tree.lost
            self._context.emit(Recollect(key, start, stop, attempt + 1, tree.roster_epoch))
            tree.lost = None

    def on_tree_order(self, message: TreeOrder) -> None:
        """The master wants a range again, or not to be kept waiting for it."""
        key = ids.partition_tree(message.job, message.partition)
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
        self._trees.pop(key, None)

    def _of(self, key: bytes) -> _Tree:
        tree = self._trees.setdefault(key, _Tree())
        self._trees.move_to_end(key)
        while len(self._trees) > TREES_MAX:
            self._trees.popitem(last=False)
        return tree

    @staticmethod
    def _begin(tree: _Tree, roster_epoch: int) -> None:
        tree.roster_epoch = roster_epoch
        for seq, (segment, payload) in list(tree.parts.items()):
            if segment.epoch < roster_epoch:
                del tree.parts[seq]
                tree.nbytes -= len(payload)
        tree.lost = None

    def _send(self, tree: _Tree, seq: int) -> None:
        if tree.master is not None:
            segment, payload = tree.parts[seq]
            part = Part(tree.job, tree.partition, seq, segment)
            self._context.send(tree.master, part, payload, lane=BULK_LANE)

    def _repeat_later(self, tree: _Tree) -> None:
        if not tree.repeating:
            tree.repeating = True
            self._context.after(self._context.jittered(AGAIN_S), lambda: self._repeat(tree))

    def _repeat(self, tree: _Tree) -> None:
        tree.repeating = False
        for seq in list(tree.parts)[:16]:
            self._send(tree, seq)
        if tree.parts:
            self._repeat_later(tree)

"""The trees to which one member contributes: one or several for each partition of its job.

Owns the membership in these trees, which of them the layout of the job gives to the member's group, and that
a contribution goes to all trees of its partition. Does not know which contributions are open.

Invariant: all trees of a partition get the same segments in the same order, so that each of them alone has
everything of the partition.

Paper: ELF 2.3 ("we build m aggregation trees"); Hwang et al. III (replicas of one
operator get the same input).
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.paths.layout import gateways_of, group_trees
from elfmesh.control.protocol.messages import Mark
from elfmesh.safeguards import safeguard
from elfmesh.srt.events import Contribute, Release, Retire, Subscribe, Unsubscribe
from elfmesh.srt.messages import Segment

WATERMARK_TIMEOUT_S = 2.0


class MemberTrees:
    """The trees of one member.

    Args:
        partitions: the trees of each partition, by its number.
    """

    def __init__(self, context: Context, partitions: Sequence[Sequence[bytes]]) -> None:
        self._context = context
        self._own = self._partitions = tuple(map(tuple, partitions))
        self._gateways: tuple[Gateway, ...] = ()

    @property
    def partitions(self) -> range:
        return range(len(self._partitions))

    def subscribe(self) -> None:
        for tree in self._all():
            self._context.emit(Subscribe(tree, keep_in=self._context.policy.keep_in))

    def unsubscribe(self) -> None:
        for tree in dict.fromkeys((*_flat(self._own), *self._all())):
            self._context.emit(Unsubscribe(tree))

    def place(self, job: bytes, layout: PathLayout | None) -> bool:
        """Contribute to all trees of this agent's group from now on; return whether these are others.

        The member then contributes everything open again. It leaves the trees of the gateway before at once,
        so that no barrier there waits for it. It stays a member of the job's own trees, which carry rosters.
        A gateway that has started again has the same trees, which collect again by themselves.
        """
        gateways = gateways_of(self._context.me, layout)
        if gateways == self._gateways:
            return False
        before, self._gateways = self._partitions, gateways
        self._partitions = self._own
        if gateways:
            trees = [(each, group_trees(job, len(self._own), each)) for each in gateways]
            self._partitions = tuple(tuple(each[at] for _, each in trees) for at in self.partitions)
            rule = self._context.policy.keep_in
            for gateway, tree in ((gateway, tree) for gateway, found in trees for tree in found):
                self._context.emit(Subscribe(tree, (gateway.contact,), rule))
        if before == self._partitions:
            return False
        kept = set(self._all())
        for tree in _flat(before):
            if before is self._own:
                self._context.emit(Retire(tree))
            elif tree not in kept:
                self._context.emit(Unsubscribe(tree))
        return self._gets_all()

    @safeguard("new-gateway-gets-all")
    def _gets_all(self) -> bool:
        """Whether a new gateway gets everything open; the one before may be gone with what it had."""
        return True

    def declare(self, segment: Segment) -> None:
        """Declare in all trees where the contributions begin, with an empty range."""
        for tree in self._all():
            self._context.emit(Contribute(tree, segment))

    def contribute(self, partition: int, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        for tree in self._partitions[partition]:
            self._context.emit(Contribute(tree, segment, payloads))

    def release(self, closed: int, epoch: int) -> None:
        """Everything below `closed` is closed."""
        for tree in dict.fromkeys((*_flat(self._own), *self._all())):
            self._context.emit(Release(tree, closed, epoch))

    def on_watermark(self, watermark: Mark) -> None:
        """Multicast a watermark of the master in the trees of the groups whose gateway this agent is."""
        for gateway, tree in zip(self._gateways, self._partitions[0], strict=False):
            if gateway.contact.id == self._context.me.id and tree in self._context.roots:
                self._context.publish(tree, watermark, WATERMARK_TIMEOUT_S, lambda done: None)

    def _all(self) -> list[bytes]:
        return _flat(self._partitions)


def _flat(partitions: Sequence[Sequence[bytes]]) -> list[bytes]:
    return [tree for trees in partitions for tree in trees]

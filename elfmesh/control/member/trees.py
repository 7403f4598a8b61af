"""The trees to which one member contributes: one or several for each partition of its job.

Owns the membership in these trees, and that a contribution goes to all trees of its partition. Does not know
which contributions are open.

Invariant: all trees of a partition get the same segments in the same order, so that each of them alone has
everything of the partition.

Paper: ELF 2.3 ("we build m aggregation trees"); "Replicated processing over wide areas" III (replicas of one
operator get the same input).
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.control.context import Context
from elfmesh.srt.events import Contribute, Release, Subscribe, Unsubscribe
from elfmesh.srt.messages import Segment


class MemberTrees:
    """The trees of one member.

    Args:
        partitions: the trees of each partition, by its number.
    """

    def __init__(self, context: Context, partitions: Sequence[Sequence[bytes]]) -> None:
        self._context = context
        self._partitions = tuple(map(tuple, partitions))

    @property
    def partitions(self) -> range:
        return range(len(self._partitions))

    def subscribe(self) -> None:
        for tree in self._all():
            self._context.emit(Subscribe(tree))

    def unsubscribe(self) -> None:
        for tree in self._all():
            self._context.emit(Unsubscribe(tree))

    def declare(self, segment: Segment) -> None:
        """Declare in all trees where the contributions begin, with an empty range."""
        for tree in self._all():
            self._context.emit(Contribute(tree, segment))

    def contribute(self, partition: int, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        for tree in self._partitions[partition]:
            self._context.emit(Contribute(tree, segment, payloads))

    def release(self, closed: int, epoch: int) -> None:
        """Everything below `closed` is closed."""
        for tree in self._all():
            self._context.emit(Release(tree, closed, epoch))

    def _all(self) -> list[bytes]:
        return [tree for trees in self._partitions for tree in trees]

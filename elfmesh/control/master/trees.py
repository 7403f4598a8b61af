"""A master and the trees of its job: what it orders of them, and what they may forget.

Owns the closed mark on its way to the members, orders to the roots of the partitions, and who those are.
Closes nothing.

Invariant: a mark is published only by the root of the job's own tree, a little after the records below it.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh import ids
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages import Mark
from elfmesh.control.protocol.messages_parts import PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.srt.events import Hasten, Recollect, Release

WATERMARK_S = 0.25
"""Closed marks are gathered for so long: one multicast for all intervals of a quarter second."""

WATERMARK_TIMEOUT_S = 2.0


class JobTrees:
    """The trees of one job, seen from its master.

    Args:
        context: clock and way out.
        terms: the state as it is now.
        announced: called with the mark when the members are told of it.
        lacking: whom the intervals lack.
    """

    def __init__(
        self, context: Context, terms: Callable[[], Terms], announced: Callable[[int], None], lacking: Lacking
    ) -> None:
        self._lacking = lacking
        self._context, self._terms, self._notified = context, terms, announced
        first = terms()
        self._job, self._epoch, self._partitions = (
            first.manifest.job_id,
            first.epoch,
            first.manifest.partitions,
        )
        self._roots: dict[int, Contact] = {}
        self._announced = first.closed
        self._timer: Timer | None = None

    def root_is(self, partition: int, root: Contact) -> None:
        self._roots[partition] = root

    def claim(self) -> None:
        """Tell the roots of the partitions who leads the job."""
        for partition in range(1, self._partitions):
            closed = self._terms().closed
            message = PartRoot(self._job, partition, self._context.me, self._epoch, closed)
            self._context.route(ids.partition_tree(self._job, partition), message)

    def hasten(self, stop: int) -> None:
        if self._job in self._context.roots:
            self._context.emit(Hasten(self._job, stop, self._epoch))
        for partition, root in self._roots.items():
            order = TreeOrder(self._job, partition, self._epoch, FIRST, stop, 0, recollect=False)
            self._context.send(root, order)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        if partition == 0 and self._job in self._context.roots:
            self._context.emit(Recollect(self._job, start, stop, attempt, self._epoch))
        elif partition in self._roots:
            order = TreeOrder(self._job, partition, self._epoch, start, stop, attempt, recollect=True)
            self._context.send(self._roots[partition], order)

    def watermark(self) -> Mark:
        terms = self._terms()
        lacked_from, lacks, revised = self._lacking.notified(terms.closed)
        return Mark(
            self._job,
            terms.manifest.incarnation,
            self._epoch,
            terms.version,
            terms.closed,
            lacked_from,
            lacks,
            revised,
        )

    def watermark_soon(self) -> None:
        """More is closed: the members shall hear of it."""
        if self._timer is None:
            self._timer = self._context.after(WATERMARK_S, self._publish)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(0.0, 0, lambda: None)

    def _publish(self) -> None:
        self._timer = None
        watermark = self.watermark()
        if watermark.closed <= self._announced:
            return
        if self._job not in self._context.roots:
            self.watermark_soon()
            return
        self._announced = watermark.closed
        self._notified(watermark.closed)
        self._context.emit(Release(self._job, watermark.closed, self._epoch))
        self._context.publish(self._job, watermark, WATERMARK_TIMEOUT_S, lambda done: None)

"""The trees of one job as its master sees them: orders to their roots, and the closed watermark.

Owns the closed watermark on its way to the members, and the roots of the partitions. Closes nothing.

Invariant: only the root of the job's own tree publishes a watermark, a little after the records below it.
"""

from __future__ import annotations

from elfmesh import ids
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.master.ports import TermView
from elfmesh.control.protocol.messages import Mark
from elfmesh.control.protocol.messages_parts import PartRoot, TreeOrder
from elfmesh.machine import Contact
from elfmesh.srt.events import Hasten, Recollect, Release

WATERMARK_S = 0.25
"""How long closed watermarks are collected, so that all intervals of a quarter second cost one multicast."""

WATERMARK_TIMEOUT_S = 2.0


class JobTrees:
    """Sends the orders of one master to its trees.

    Args:
        term: of the master.
        lacking: the members that are missing in each interval.
    """

    def __init__(self, term: TermView, lacking: Lacking) -> None:
        self._context, self._term, self._lacking = term.context, term, lacking
        first = term.terms
        self._job, self._partitions = first.manifest.job_id, first.manifest.partitions
        self._epoch, self._roster_epoch = first.epoch, first.roster_epoch
        self._stated = first.stated_roster_epoch
        self._roots: dict[int, Contact] = {}
        self._announced = first.closed
        self._alarm, self._stopped = Alarm(self._context, self._publish), False

    def root_is(self, partition: int, root: Contact) -> None:
        self._roots[partition] = root

    def claim(self) -> None:
        """Claim the roots of the partitions: they send their segments to this master."""
        for partition in range(1, self._partitions):
            closed = self._term.terms.closed
            message = PartRoot(self._job, partition, self._context.me, self._epoch, closed, self._stated)
            self._context.route(ids.partition_tree(self._job, partition), message)

    def hasten(self, stop: int) -> None:
        if self._job in self._context.roots:
            self._context.emit(Hasten(self._job, stop, self._roster_epoch))
        for partition, root in self._roots.items():
            self._order(root, partition, FIRST, stop, 0, recollect=False)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        if partition == 0 and self._job in self._context.roots:
            self._context.emit(Recollect(self._job, start, stop, attempt, self._roster_epoch))
        elif partition in self._roots:
            self._order(self._roots[partition], partition, start, stop, attempt, recollect=True)

    def _order(
        self, root: Contact, partition: int, start: int, stop: int, attempt: int, *, recollect: bool
    ) -> None:
        about = (self._job, partition, self._epoch, start, stop, attempt, recollect)
        self._context.send(root, TreeOrder(*about, self._stated))

    def watermark(self) -> Mark:
        terms = self._term.terms
        lacked_from, lacks, revised, partly = self._lacking.notified(terms.closed)
        return Mark(
            self._job,
            terms.manifest.incarnation,
            self._epoch,
            terms.version,
            terms.closed,
            lacked_from,
            lacks,
            revised,
            partly,
        )

    def watermark_soon(self) -> None:
        """The closed watermark has grown: publish it soon."""
        if not self._alarm.is_set and not self._stopped:
            self._alarm.set(WATERMARK_S)

    def stop(self) -> None:
        self._alarm.cancel()
        self._stopped = True

    def _publish(self) -> None:
        watermark = self.watermark()
        if watermark.closed <= self._announced:
            return
        if self._job not in self._context.roots:
            self.watermark_soon()
            return
        self._context.note("watermark", self._job, self._announced, watermark.closed)
        self._announced = watermark.closed
        self._term.book.forget_below(watermark.closed)
        self._context.emit(Release(self._job, watermark.closed, self._roster_epoch))
        self._context.publish(self._job, watermark, WATERMARK_TIMEOUT_S, lambda done: None)

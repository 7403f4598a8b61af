"""A master and the trees of its job: what it orders of them, and what they may forget.

Owns the closed mark on its way to the members, orders to the roots of the partitions, and who those are.
Closes nothing.

Invariant: a mark is published only by the root of the job's own tree, a little after the records below it:
at once where members hold much until then, leave, or have to hear what was not inside.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh import ids
from elfmesh.control.master.fates import Lacking
from elfmesh.control.member.member import PATIENCE_S
from elfmesh.control.messages import Mark, PartRoot, TreeOrder
from elfmesh.control.office import Office, Timer
from elfmesh.control.plan import Plan
from elfmesh.control.results.records import BUCKETS, FIRST, ResultRecord
from elfmesh.control.terms import Terms
from elfmesh.machine import Contact
from elfmesh.srt.events import Hasten, Recollect, Release

MARK_S = 0.25
"""Closed marks are gathered for so long: one multicast for all intervals of a quarter second."""

LAZY_MARK_S = 2.25
"""The same where no member waits for it: one multicast for three windows of a second."""

BEFORE_ASKED_S = PATIENCE_S - 0.75
"""Beyond a job's deadline: before members ask what became of what they sealed."""

LIGHT_INTERVALS = 4
LIGHT_RECORDS = 10_000
"""Intervals with so few records may be held by their members for longer; whoever catches up has more."""


class JobTrees:
    """The trees of one job, seen from its master.

    Args:
        office: clock and way out.
        terms: the state as it is now.
        plan: of the job.
        marked: called with the mark when the members are told of it.
        lacking: whom the intervals lack.
    """

    def __init__(
        self,
        office: Office,
        terms: Callable[[], Terms],
        plan: Plan,
        marked: Callable[[int], None],
        lacking: Lacking,
    ) -> None:
        self._lacking = lacking
        self._office, self._terms, self._told = office, terms, marked
        first = terms()
        self._job, self._epoch, self._partitions = (
            first.manifest.job_id,
            first.epoch,
            first.manifest.partitions,
        )
        self._roots: dict[int, Contact] = {}
        self._marked = first.closed
        self._lazy_s = min(LAZY_MARK_S, plan.deadline_s + BEFORE_ASKED_S)
        self._intervals = self._records = 0  # since the last mark
        self._wanted = self._stopped = False
        self._timer: Timer | None = None

    def root_is(self, partition: int, root: Contact) -> None:
        """A part of a partition came from this agent."""
        self._roots[partition] = root

    def claim(self) -> None:
        """Tell the roots of the partitions who leads the job."""
        for partition in range(1, self._partitions):
            closed = self._terms().closed
            message = PartRoot(self._job, partition, self._office.me, self._epoch, closed)
            self._office.route(ids.partition_tree(self._job, partition), message)

    def hasten(self, stop: int) -> None:
        """Ask all trees not to wait below `stop`."""
        if self._job in self._office.roots:
            self._office.emit(Hasten(self._job, stop, self._epoch))
        for partition, root in self._roots.items():
            order = TreeOrder(self._job, partition, self._epoch, FIRST, stop, 0, recollect=False)
            self._office.send(root, order)

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        """Ask a tree for a range again."""
        if partition == 0 and self._job in self._office.roots:
            self._office.emit(Recollect(self._job, start, stop, attempt, self._epoch))
        elif partition in self._roots:
            order = TreeOrder(self._job, partition, self._epoch, start, stop, attempt, recollect=True)
            self._office.send(self._roots[partition], order)

    def mark(self) -> Mark:
        """What is closed now."""
        terms = self._terms()
        lacked_from, lacks, revised = self._lacking.told(terms.closed)
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

    def published(self, record: ResultRecord) -> None:
        """A record is final: members may forget what they contributed, soon if it is much or not inside."""
        self._intervals += 1
        self._records += record.counts[BUCKETS[0]]
        self._wanted |= record.state != "FINAL" or bool(record.revs)

    def mark_soon(self) -> None:
        """More is closed: the members shall hear of it."""
        if self._stopped:
            return
        at = self._office.now + (MARK_S if self._is_waited_for else self._lazy_s)
        if self._timer is not None and self._timer.at > at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._office.after(at - self._office.now, self._publish)

    @property
    def _is_waited_for(self) -> bool:
        much = self._intervals > LIGHT_INTERVALS or self._records > LIGHT_RECORDS
        return self._wanted or much or any(entry.until is not None for entry in self._terms().members)

    def stop(self) -> None:
        """Not the master any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _publish(self) -> None:
        self._timer = None
        mark = self.mark()
        if mark.closed <= self._marked:
            return
        if self._job not in self._office.roots:
            self._wanted = True
            self.mark_soon()
            return
        self._marked, self._intervals, self._records, self._wanted = mark.closed, 0, 0, False
        self._told(mark.closed)
        self._office.emit(Release(self._job, mark.closed, self._epoch))
        self._office.tell(self._job, mark)

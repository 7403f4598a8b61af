"""Closing intervals: when everything an interval needs is there, or will never be.

Owns the order in which a job's intervals end, each in exactly one record (I2, I3), and what is in flight
between collection and publication. What is decided from it is `close_decisions`', what is done about members
that are missing `stragglers`'. Knows no client and no successor.

Invariants: `next` is the first interval that is not decided, `closed` the first that is not published; both
only grow. Ranges that nobody has records for are closed at once and leave no record; if a member is missing,
which may have had some, the whole run leaves one that names it (I3). At most `IN_FLIGHT_MAX`
intervals are being finalised; they are published in order (D-6). Intervals that wait beyond the deadline are
shown as they are meanwhile (`early_results`, D-9).

Paper: ELF 3, the barrier of Figure 9, seen from the root.
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.closing.copy_recovery import Recovery
from elfmesh.control.closing.decisions import Run, decide_run
from elfmesh.control.closing.eviction import Evictions
from elfmesh.control.closing.latency_stats import LatencyStats
from elfmesh.control.closing.open_sessions import OpenSessions
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.closing.partial_store import PartialStore, covered_in_all, first_in_any
from elfmesh.control.closing.ports import Closing, Failed, Frontiers, Leader
from elfmesh.control.closing.progress import Seen
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.revisions import Revising
from elfmesh.control.closing.straggler_orders import Stragglers
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.closing.tentative_results import EarlyResults
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import Plan
from elfmesh.control.jobs.records import BUCKETS, State
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalised
from elfmesh.control.protocol.messages_parts import PartFault
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.interval_map import END
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import PartsDropped
from elfmesh.srt.messages import Segment

IN_FLIGHT_MAX = 8
"""Intervals being finalised at a time (D-6)."""

ERRORS_MAX = 10


class Closer:
    """Turns what is collected into records.

    Args:
        context: clock and way out.
        stages: the job's versions.
        plan: the newest one's rules.
        book: its roster.
        epoch: the master's term.
        start: first interval that is not closed.
        leader: the master around it.
    """

    def __init__(
        self, context: Context, stages: tuple[Stage, ...], plan: Plan, book: RosterBook,
        epoch: int, start: int, leader: Leader,
    ) -> None:  # fmt: skip
        self._context, self._stages, self._plan, self._book = context, stages, plan, book
        self._epoch, self._leader = epoch, leader
        self.straggler_policy = StragglerPolicy(
            context, book, plan.on_straggler, plan.deadline_s, self.advance, horizon_s=plan.horizon_s
        )
        self.tentative = Tentative(context, epoch, self.advance, leader.shown)
        self.rates = Rates()
        self.lacking = Lacking(start)
        self.sessions = OpenSessions(stages)
        self.latest = SideInput(context, [stage.manifest for stage in stages], self.advance)
        self.next = start
        self.trees = [PartialStore(start) for _ in range(stages[-1].manifest.partitions)]
        self.errors: deque[str] = deque(maxlen=ERRORS_MAX)
        self.frozen = self.founding = self.paused = self.behind = False
        self.latency_stats = LatencyStats(context)
        self.evictions = Evictions(context, book, self.straggler_policy, self.latency_stats, stages)
        self._closing: deque[Closing] = deque()
        self._handed = 0
        self._seen = Seen()
        self.frontiers = Frontiers()
        self._failed = Failed()
        self._revising = Revising(context, self.trees, self._failed, leader.recollect, self.advance)
        self._recovery = Recovery(context, stages, plan.replicas, epoch, book, self.straggler_policy)
        self._stragglers = Stragglers(
            context, plan.deadline_s, self.trees, self.straggler_policy, self._recovery, self._revising,
            self.frontiers, leader.hasten, self.due_since, self._wake,
        )  # fmt: skip
        self._maker = RecordMaker(
            context, stages, epoch, book, self.trees, self._failed, self.sessions, self.latest
        )
        self._early = EarlyResults(
            context, plan.deadline_s, book, self.trees, self.sessions, self.latest,
            self.tentative, self._maker, self.due_since,
        )  # fmt: skip
        self._resumed_at = float("-inf")
        self._timer: Timer | None = None

    @property
    def closed(self) -> int:
        return self._closing[0].record.first if self._closing else self.next

    @property
    def idle(self) -> bool:
        """Nothing is between decision and publication."""
        return not self._closing

    @property
    def frontier(self) -> int | None:
        """One past the highest interval that anybody has sealed, None before the first seal."""
        return self._seen.frontier

    @property
    def held(self) -> int:
        """The first interval that is not published and that anybody is known to have records for."""
        known = None if self._closing or self.frontier is None else self.frontier
        first = None if known is None else first_in_any(self.trees, self.next, known)
        return self.closed if first is None else first

    def begin(self) -> None:
        self.latest.begin()

    def waits_for(self) -> list[str]:
        """What the next interval waits for of the jobs that are read, in words."""
        return self.latest.waits_for()

    def missing(self) -> int:
        """The members that the first open interval waits for."""
        return self._book.required(self.next) & ~covered_in_all(self.trees, self.next)

    def due_since(self, interval: int) -> float | None:
        """When somebody was first seen beyond this interval, None if nobody was; a pause does not count."""
        seen = self._seen.since(interval)
        return None if seen is None else max(seen, self._resumed_at)

    def pause(self, paused: bool) -> None:
        """Members do not read by our own order: who is missing is given up by nobody's clock."""
        if self.paused and not paused:
            self._resumed_at = self._context.now
        self.paused = paused
        self.advance()

    def collected(self, partition: int, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        mask = bits_of(segment.coverage)
        if any(len(entry.counts) > len(BUCKETS) for entry in segment.entries):
            self._context.stats["control.malformed"] += 1
            return
        if segment.stop > self.next:
            self.straggler_policy.seen(mask)
        self.latency_stats.arrived(mask, self._seen.since(segment.stop - 1))
        tree = self.trees[partition]
        for conflict in tree.add(segment, payloads):
            if tree.is_revised(conflict):
                self._revising.wants(partition, conflict)
            else:
                self._context.stats["control.overlaps"] += 1
                self._revising.repair(conflict, conflict + 1, partition)
        self._passed(segment.stop)

    def recovered(self, copy: Keep, payload: bytes) -> None:
        """A peer has what a dead member contributed: it counts, and its member stays dead."""
        stop = self._recovery.take(copy, payload, self.next, self.trees)
        if stop is not None:
            self._passed(stop)

    def _passed(self, stop: int) -> None:
        self._seen.passed(stop, self._context.now)
        self.advance()

    def reported(self, number: int, frontier: int) -> None:
        """A member says how far it has sealed."""
        self.frontiers.note(number, frontier)
        self._passed(frontier)

    def dropped(self, partition: int, lost: PartsDropped | PartFault) -> None:
        """Contributions cannot be merged with the others: their agents are missing, and people learn why."""
        mask = bits_of(lost.coverage)
        self.errors.append(f"{', '.join(self._book.names(mask))}: {lost.error}")
        self._failed.add(lost.start, lost.stop, mask, self.errors[-1])
        self.trees[partition].fail(lost.start, lost.stop, mask)
        self.advance()

    def finalised(self, event: Finalised) -> None:
        """The rows of an interval are there, or cannot be made."""
        interval, rows, error = event.interval, event.rows, event.error
        closing = next((each for each in self._closing if each.record.index == interval), None)
        if closing is None or closing.record.rev != event.rev:
            if error or event.pages:  # an open interval is shown where its rows need no pages
                self.tentative.failed(interval, event.rev)
            else:
                self.tentative.made(interval, event.rev, rows)
            return
        if closing.rows is not None:
            return
        if problem := self.sessions.made(closing, event):
            self.errors.append(f"interval {interval}: {problem}")
        self._leader.keep_pages(interval, () if problem else event.pages)
        self.publish()
        if self.sessions.at(interval):
            self.advance()

    def publish(self) -> None:
        """Hand on what is ready, in order; it is published when the control register has closed it."""
        while self._handed < len(self._closing) and not self.behind:
            ready = self._closing[self._handed]
            if ready.rows is None:
                return
            self._handed += 1
            self.latency_stats.made(ready.record.index)
            self._leader.commit(ready.record, ready.rows)

    def committed(self, count: int) -> None:
        """So many of the oldest records are published."""
        for _ in range(count):
            done = self._closing.popleft()
            self.latency_stats.closed(done.record.index)
            self.tentative.drop_below(done.record.index + 1)
        self._handed -= count
        self.advance()

    def advance(self) -> None:
        before = self.closed
        open_to_close = not (self.frozen or self.founding)
        while open_to_close and len(self._closing) < IN_FLIGHT_MAX and self._close_run():
            pass
        if open_to_close and self._plan.on_straggler == "correct" and not self.paused:
            self._early.show(self.next, self.frontier, self.rates)
        if self.evictions.carry_out(self.frontier, self.next):
            self._leader.evicted()
        if self.closed != before or (self.frozen and self.idle):
            self._leader.advanced()

    def _close_run(self) -> bool:
        at, required = self.next, self._book.required(self.next)
        stop = self._book.changes_after(at)
        if self.sessions.waits(at, self._closing) or (not required and stop == END):
            return False
        if not required:
            self.lacking.decided(at, stop, self._book.given)
            self._move(stop)
            return True
        failed, border = self._failed.at(at)
        versions = (stage.start for stage in self._stages if stage.start > at)
        stop = min(stop, border, *versions, *(tree.until(at) for tree in self.trees))
        missing = required & ~covered_in_all(self.trees, at)
        state: State = "FINAL"
        if missing:
            due = self.due_since(at)
            if due is None or self.paused:
                return False
            late = self._stragglers.decide(at, required, missing, due, self._seen.last)
            if late.problem:
                self.errors.append(late.problem)
            if late.state is None:
                return False
            state, stop = late.state, min(stop, self._seen.last)
        first = at if self.sessions.is_open(at) else first_in_any(self.trees, at, stop)
        run = decide_run(
            at,
            stop,
            first,
            state,
            settled=first is None or state == "SKIPPED" or self._is_settled(first),
            required=required,
            missing=missing,
            failed=failed,
            torn=0 if first is None else self._revising.torn(first),
        )
        if run is None:
            return False
        outside = self._book.given & (~covered_in_all(self.trees, at) | failed)
        self.lacking.decided(at, run.stop - run.has_record, outside)
        if run.has_record:
            self._begin(run)
        self._move(run.stop)
        return True

    def _is_settled(self, index: int) -> bool:
        return self._revising.is_settled(index) and self.latest.has_read(index)

    def _begin(self, run: Run) -> None:
        index = run.index
        record, payloads = self._maker.make(run, self.tentative.rev(index) + 1, self.rates)
        self.latency_stats.decided(index, self.due_since(index))
        self.lacking.decided(index, index + 1, bits_of(record.absent))
        self.lacking.revised(index, record.revs)
        heavy = run.state != "SKIPPED" and (any(payloads) or self.sessions.is_open(index))
        self._closing.append(Closing(self.sessions.skipped(record), None if heavy else b""))
        if heavy:
            self._maker.finalise(record, payloads)
        else:
            self._context.after(0.0, self.publish)

    def _move(self, stop: int) -> None:
        self.next = stop
        for tree in self.trees:
            tree.drop_below(stop)
        self._seen.drop_below(stop)
        self._revising.drop_below(stop)
        self._failed.drop_below(stop)
        self._stragglers.drop_below(stop)
        self.latest.closed(stop)

    def _wake(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._context.after(max(at - self._context.now, 0.001), self.advance)

    def stop(self) -> None:
        self.latest.stop()
        self.frozen = True
        self._closing, self._handed = deque(), 0
        self.tentative.clear()
        self._revising.stop()
        if self._timer is not None:
            self._timer.cancel()

"""Interval closer: closes the intervals of a job in order, each with exactly one record or with none.

Owns the order in which intervals close (I2, I3), and the intervals between decision and publication. An
`IntervalSource` (members, the jobs that are read, or posts) decides when an interval is complete.

Transitions of an interval (`Phase`); a number refers to the reason why nothing changes:

    phase  | pass   decide  empty   rows    error   publish  commit  stop
    -------|--------------------------------------------------------------
    OPEN   | CLOSED MAKING  READY   1       1       2        3       GONE
    MAKING | 4      4       4       READY   READY   2        3       GONE
    READY  | 4      4       4       5       5       HANDED   3       GONE
    HANDED | 4      4       4       5       5       6        CLOSED  GONE
    CLOSED | 4      4       4       5       5       6        3       CLOSED
    GONE   | 7      7       7       5       5       2        3       GONE

    pass: decided without a record; decide, empty: decided with a record whose rows are to be made, or that
    has no rows; rows, error: the rows are made, or cannot be made; publish: all earlier intervals are handed
    to the committer; commit: the register has closed the oldest interval; stop: the term ends (a successor
    decides intervals that are GONE again)

    1 They may be those of a tentative revision.                   2 It has no rows yet.
    3 An error: the register closes only intervals handed to it.   4 An interval is decided once.
    5 The first rows count.                                        6 It is handed over once.
    7 No interval is decided after the end of the term.

Flags that hold this back (`Closer.frozen`, ...), and what each of them allows:

    flag     | decide  give up on members  publish
    ---------|------------------------------------
    frozen   | no      no                  yes       another master or version continues
    founding | no      no                  yes       the first members are being enrolled
    paused   | yes     no                  yes       the user has ordered members not to read
    behind   | yes     yes                 no        the log of earlier terms has not arrived yet

Invariants: `next` is the first interval that is not decided, `closed` the first one that is not published;
both only grow. An interval without records of any member has no record. At most `IN_FLIGHT_MAX` intervals are
being finalised; they are published in order (D-6).

Paper: ELF 3, the barrier of Figure 9, seen from the root.
"""

from __future__ import annotations

import dataclasses
from collections import deque

from msgspec.structs import replace

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.interval_source import IntervalSource
from elfmesh.control.closing.ports import Closing, Phase, decided_as
from elfmesh.control.closing.record_maker import without_prefixes
from elfmesh.control.jobs.records import ResultRecord, counts_dict
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of

IN_FLIGHT_MAX = 8
"""Maximum number of intervals that are being finalised (D-6)."""

IN_TURN_BYTES_MAX = 256 << 10
"""Maximum size of the payloads of intervals of one order, because the rows of the first wait for the last."""


@safeguard("grant-ends-first")
def needs_master(decision: Decision) -> bool:
    """Return whether votes cannot close the intervals of a decision, because they are not complete."""
    return decision.missing != 0 or decision.state != "FINAL"


class Closer:
    """Interval closer of one job in one term.

    Args:
        source: source of the intervals.
    """

    def __init__(self, term: ClosingTerm, source: IntervalSource) -> None:
        self._term, self._source, self.next = term, source, term.start
        self.errors, self.tentative, self.latency_stats = term.errors, term.tentative, term.latency_stats
        self.frozen = self.founding = self.paused = self.behind = False
        self._closing: deque[Closing] = deque()
        self._orders: list[Finalise] = []

    @property
    def closed(self) -> int:
        return self._closing[0].record.first if self._closing else self.next

    @property
    def idle(self) -> bool:
        """Whether no interval is between decision and publication."""
        return not self._closing

    @property
    def has_room(self) -> bool:
        """Whether another interval may be decided and finalised now."""
        return self._is_open and not self.paused and len(self._closing) < IN_FLIGHT_MAX

    @property
    def _is_open(self) -> bool:
        return not (self.frozen or self.founding)

    def begin(self) -> None:
        self._source.begin(self)

    def waits_for(self) -> list[str]:
        """Return, as text, the inputs from other jobs for which the next interval waits."""
        return self._source.waits_for()

    def pause(self, paused: bool) -> None:
        """Pause or resume; while a job is paused, no deadline gives up a missing member."""
        if self.paused and not paused:
            self._source.resumed()
        self.paused = paused
        self.advance()

    def finalised(self, event: Finalised) -> None:
        """Take the rows of the intervals of an order, or the error that prevents them."""
        groups = self._term.open_groups
        for each in (event, *event.then):
            closing = self._being_made(each)
            if closing is None:
                return
            if self._made(closing, each):
                break  # the rows behind it were made with other groups
        self._order([each.order for each in self._closing if each.order is not None])
        self.publish()
        if groups.at(event.interval):
            self.advance()

    def _being_made(self, event: Finalised) -> Closing | None:
        """Return the interval that waits for these rows; None: they are those of a tentative record."""
        interval = event.interval
        made = event.error or f"rows of revision {event.rev}"
        self._term.context.note("made", event.job, interval, interval + 1, made)
        closing = next((each for each in self._closing if each.record.index == interval), None)
        if closing is None or closing.record.rev != event.rev:
            if event.lacks_prefixes:
                self._term.prefixes.refuse(interval)
            if event.error or event.pages or event.lacks_prefixes:  # a tentative record has no pages
                self.tentative.failed(interval, event.rev)
            else:
                self.tentative.made(interval, event.rev, event.rows)
            return None
        return closing if closing.phase is Phase.MAKING else None

    def _made(self, closing: Closing, event: Finalised) -> str:
        """Complete a record with its rows. Returns why they cannot be made, or ""."""
        interval = event.interval
        if event.lacks_prefixes and closing.decision is not None:
            self._term.prefixes.refuse(interval)
            closing.record = without_prefixes(self._term, closing.record, closing.decision)
            self._term.lacking.included(interval, closing.record.partly)
        if event.counts:
            closing.record = replace(closing.record, counts=counts_dict(event.counts))
        if event.accuracy is not None:
            self._term.accuracy.add(*event.accuracy)
        if problem := self._term.open_groups.made(closing, event):
            self.errors.append(f"interval {interval}: {problem}")
        closing.order = None
        closing.record = self._term.early.judged(closing.record, None if problem else event.withdrawn)
        self._term.leader.keep_pages(interval, () if problem else event.pages)
        return problem

    def publish(self) -> None:
        """Hand ready records to the committer in order, which publishes them after the register's change."""
        while not self.behind:
            ready = next((each for each in self._closing if each.phase is not Phase.HANDED), None)
            if ready is None or ready.rows is None:
                return
            ready.handed = True
            self.latency_stats.made(ready.record.index)
            self._term.leader.commit(ready.record, ready.rows)

    def published(self, record: ResultRecord) -> None:
        """State the revisions inside: votes may choose a record without those that were decided here."""
        self._term.lacking.revised(record.index, record.revs)

    def committed(self, count: int) -> None:
        """Handle that the `count` oldest records are published."""
        for _ in range(count):
            if not self._closing or self._closing[0].phase is not Phase.HANDED:
                raise ValueError("the register has closed an interval that was not handed on")
            done = self._closing.popleft()
            self.latency_stats.closed(done.record.index)
            self.tentative.drop_below(done.record.index + 1)
            self._term.early.drop_below(done.record.index + 1)
        self.advance()

    def adopt(self, record: ResultRecord) -> None:
        """Handle that votes have closed the next interval with this record, before its record is here."""
        index, lacking = record.index, self._term.lacking
        if self._closing and self._closing[0].record.index == index:
            self._closing.popleft()
        elif not self._closing and index >= self.next:
            outside = bits_of(record.absent)
            lacking.decided(self.next, index + 1, outside)
            self.next = index + 1
            self._source.decided(self.next)
        self.tentative.drop_below(index + 1)
        self._term.early.drop_below(index + 1)
        self.advance()

    def advance(self) -> None:
        before = self.closed
        while self._is_open and len(self._closing) < IN_FLIGHT_MAX and self._decide():
            pass
        orders, self._orders = self._orders, []
        self._order(orders)
        self._source.wait(self.next, shows=self._is_open and not self.paused)
        if self.closed != before or (self.frozen and self.idle):
            self._term.leader.advanced()

    def _decide(self) -> bool:
        if not self._has_turn():
            return False
        decision = self._source.decide(self.next, paused=self.paused)
        if decision is None:
            return False
        if needs_master(decision) and self._term.leader.is_granted:
            self._term.leader.end_grant()
            return False
        stop = decision.stop - decision.has_record
        self._term.lacking.decided(self.next, stop, decision.outside)
        if decision.has_record:
            self._begin(decision)
        else:
            job = self._term.stages[-1].manifest.job_id
            self._term.context.note("decided", job, decision.start, decision.stop, "no records", leads=False)
        self.next = decision.stop
        self._source.decided(decision.stop)
        return True

    def _has_turn(self) -> bool:
        """Return whether the next interval may be decided, because its rows are made with known groups."""
        groups = self._term.open_groups
        if not groups.waits(self.next, self._closing):
            return True
        size = sum(len(part) for each in self._orders for partition in each.parts for part in partition)
        fits = bool(self._orders) and size < IN_TURN_BYTES_MAX
        return fits and groups.follows(self.next, self._closing[-1].record)

    def _order(self, orders: list[Finalise]) -> None:
        """Order rows; those of intervals with open groups are made in turn, by one order."""
        groups = self._term.open_groups
        for each in orders:
            if each.open is None:
                self._term.context.emit(each)
        if in_turn := [each for each in orders if each.open is not None]:
            first, *then = in_turn
            before = groups.before(first.interval)
            self._term.context.emit(dataclasses.replace(first, open=before, then=tuple(then)))

    def _begin(self, decision: Decision) -> None:
        index, lacking, groups = decision.index, self._term.lacking, self._term.open_groups
        record, order = self._source.make(decision, self.tentative.rev(index) + 1)
        job = self._term.stages[-1].manifest.job_id
        self._term.context.note("decided", job, record.first, index + 1, decided_as(record))
        lacking.decided(index, index + 1, bits_of(record.absent))
        lacking.revised(index, record.revs)
        lacking.included(index, record.partly)
        rows = None if isinstance(order, Finalise) else order
        if isinstance(order, Finalise):
            shown = self.tentative.newest(index) if record.state == "FINAL" else None
            order = dataclasses.replace(order, early=self._term.early.rows_of(record), tentative=shown)
            self._orders.append(order)
        else:
            record = self._term.early.judged(record, None)
            self._term.context.after(0.0, self.publish)
        closing = Closing(groups.skipped(record), rows, decision=decision)
        if isinstance(order, Finalise) and order.open is not None:
            closing.order = order
            groups.begin(record)
        self._closing.append(closing)

    def stop(self) -> None:
        self._source.stop()
        self.frozen = True
        self._closing.clear()
        self._orders.clear()
        self.tentative.clear()
        self._term.early.clear()

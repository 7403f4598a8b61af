"""Closing intervals: each ends in order, in exactly one record or in none, whatever its source is.

Owns the order in which a job's intervals end (I2, I3), and what is between decision and publication. When an
interval has everything is its `IntervalSource`'s to decide: members, or the jobs that are read. Knows no
client and no successor.

What becomes of an interval (`Phase`, `Step`); a number refers to the reason why nothing happens:

    phase  | pass   decide  empty   rows    error   publish  commit  stop
    -------|--------------------------------------------------------------
    OPEN   | CLOSED MAKING  READY   1       1       2        3       GONE
    MAKING | 4      4       4       READY   READY   2        3       GONE
    READY  | 4      4       4       5       5       HANDED   3       GONE
    HANDED | 4      4       4       5       5       6        CLOSED  GONE
    CLOSED | 4      4       4       5       5       6        3       CLOSED
    GONE   | 7      7       7       5       5       2        3       GONE

    pass: decided without a record; decide, empty: with one, whose rows are to be made, or that has none
    rows, error: the rows are made, or cannot be; publish: those before are handed on; commit: the register
    has closed the oldest; stop: the term ends (a successor decides again what is gone)

    1 They may be those of a tentative revision, which is shown.   2 Its rows are not there.
    3 An error: the register closes what was handed on.            4 An interval is decided once.
    5 The first rows count.                                        6 It is handed on once.
    7 Nothing is decided behind the end of the term.

What keeps that back (`Closer.frozen`, ...), and what it allows:

    flag     | decide  give up on members  publish
    ---------|------------------------------------
    frozen   | no      no                  yes       another agent or version is to go on
    founding | no      no                  yes       the first members are gathered
    paused   | yes     no                  yes       members do not read, by order of the user
    behind   | yes     yes                 no        the log of the earlier terms is not here yet

Invariants: `next` is the first interval that is not decided, `closed` the first that is not published; both
only grow. Intervals that no member has records for leave none. At most `IN_FLIGHT_MAX` intervals are being
finalised; they are published in order (D-6).

Paper: ELF 3, the barrier of Figure 9, seen from the root.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.interval_source import IntervalSource
from elfmesh.control.closing.ports import Closing, Phase, decided_as
from elfmesh.control.jobs.records import counts_dict
from elfmesh.control.protocol.events import Finalised
from elfmesh.srt.coverage import bits_of

IN_FLIGHT_MAX = 8
"""Intervals being finalised at a time (D-6)."""


class Closer:
    """Turns what a source has into records.

    Args:
        term: what the parts of the term share.
        source: where the intervals come from.
    """

    def __init__(self, term: ClosingTerm, source: IntervalSource) -> None:
        self._term, self._source, self.next = term, source, term.start
        self.errors, self.tentative, self.latency_stats = term.errors, term.tentative, term.latency_stats
        self.frozen = self.founding = self.paused = self.behind = False
        self._closing: deque[Closing] = deque()

    @property
    def closed(self) -> int:
        return self._closing[0].record.first if self._closing else self.next

    @property
    def idle(self) -> bool:
        """Nothing is between decision and publication."""
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
        """What the next interval waits for of the jobs that are read, in words."""
        return self._source.waits_for()

    def pause(self, paused: bool) -> None:
        """Members do not read by our own order: no clock gives up a missing one."""
        if self.paused and not paused:
            self._source.resumed()
        self.paused = paused
        self.advance()

    def finalised(self, event: Finalised) -> None:
        """The rows of an interval are there, or cannot be made."""
        interval, sessions = event.interval, self._term.sessions
        made = event.error or f"rows of revision {event.rev}"
        self._term.context.note("made", event.job, interval, interval + 1, made)
        closing = next((each for each in self._closing if each.record.index == interval), None)
        if closing is None or closing.record.rev != event.rev:
            if event.error or event.pages:  # an open interval is shown where its rows need no pages
                self.tentative.failed(interval, event.rev)
            else:
                self.tentative.made(interval, event.rev, event.rows)
            return
        if closing.phase is not Phase.MAKING:
            return
        if event.counts:
            closing.record = replace(closing.record, counts=counts_dict(event.counts))
        if problem := sessions.made(closing, event):
            self.errors.append(f"interval {interval}: {problem}")
        self._term.leader.keep_pages(interval, () if problem else event.pages)
        self.publish()
        if sessions.at(interval):
            self.advance()

    def publish(self) -> None:
        """Hand on what is ready, in order; it is published when the control register has closed it."""
        while not self.behind:
            ready = next((each for each in self._closing if each.phase is not Phase.HANDED), None)
            if ready is None or ready.rows is None:
                return
            ready.handed = True
            self.latency_stats.made(ready.record.index)
            self._term.leader.commit(ready.record, ready.rows)

    def committed(self, count: int) -> None:
        """So many of the oldest records are published."""
        for _ in range(count):
            if not self._closing or self._closing[0].phase is not Phase.HANDED:
                raise ValueError("the register has closed an interval that was not handed on")
            done = self._closing.popleft()
            self.latency_stats.closed(done.record.index)
            self.tentative.drop_below(done.record.index + 1)
        self.advance()

    def advance(self) -> None:
        before = self.closed
        while self._is_open and len(self._closing) < IN_FLIGHT_MAX and self._decide():
            pass
        self._source.wait(self.next, shows=self._is_open and not self.paused)
        if self.closed != before or (self.frozen and self.idle):
            self._term.leader.advanced()

    def _decide(self) -> bool:
        if self._term.sessions.waits(self.next, self._closing):
            return False
        decision = self._source.decide(self.next, paused=self.paused)
        if decision is None:
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

    def _begin(self, decision: Decision) -> None:
        index, lacking = decision.index, self._term.lacking
        record, order = self._source.make(decision, self.tentative.rev(index) + 1)
        job = self._term.stages[-1].manifest.job_id
        self._term.context.note("decided", job, record.first, index + 1, decided_as(record))
        lacking.decided(index, index + 1, bits_of(record.absent))
        lacking.revised(index, record.revs)
        rows = None if order else b""
        self._closing.append(Closing(self._term.sessions.skipped(record), rows))
        if order:
            self._term.context.emit(order)
        else:
            self._term.context.after(0.0, self.publish)

    def stop(self) -> None:
        self._source.stop()
        self.frozen = True
        self._closing.clear()
        self.tentative.clear()

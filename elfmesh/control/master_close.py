"""Closing intervals: when everything an interval needs is there, or will never be.

Owns the order in which a job's intervals end, each in exactly one record (I2, I3), and what is in flight
between collection and publication. Knows no client and no successor.

Invariants: `next` is the first interval that is not decided, `closed` the first that is not published; both
only grow. Ranges that nobody has records for are closed at once and leave no record. At most `IN_FLIGHT_MAX`
intervals are being finalised; they are published in order (D-6). Intervals that wait beyond the deadline are
shown as they are meanwhile (`tentative`, D-9).

Paper: ELF 3, the barrier of Figure 9, seen from the root.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from elfmesh.control.closing import Closing, Leader, make_record
from elfmesh.control.cover import END
from elfmesh.control.events import Finalise, Finalised
from elfmesh.control.fates import Lacking
from elfmesh.control.fidelity import Rates
from elfmesh.control.gathered import Gathered, covered_in_all
from elfmesh.control.manifest import Manifest
from elfmesh.control.master_judge import HORIZON_S, Judge
from elfmesh.control.master_roster import RosterBook
from elfmesh.control.messages import PartFault
from elfmesh.control.messages_safety import Keep
from elfmesh.control.office import Office, Timer
from elfmesh.control.pages import ROWS_BYTES_MAX
from elfmesh.control.plan import Plan
from elfmesh.control.records import BUCKETS, ResultRecord, State, add_counts
from elfmesh.control.recovery import Recovery
from elfmesh.control.seen import Seen
from elfmesh.control.tentative import OPEN_MAX, Tentative
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import PartsDropped
from elfmesh.srt.messages import Segment

IN_FLIGHT_MAX = 8
"""Intervals being finalised at a time (D-6)."""

HELD_BYTES_MAX = 256 << 20
"""Payloads held for intervals that wait for somebody; beyond it nobody is waited for any longer."""

HASTEN_S = 1.0
"""How long what was held back in the trees has to arrive once they were told to wait no longer."""

REPAIR_S = 5.0
"""How often a range is collected anew that members say they have sent and that is not here."""

ERRORS_MAX = 10


class Closer:
    """Turns what is collected into records.

    Args:
        office: clock and way out.
        manifest: the job.
        plan: its windows and rules.
        book: its roster.
        epoch: the master's term.
        start: first interval that is not closed.
        leader: the master around it.
    """

    def __init__(
        self,
        office: Office,
        manifest: Manifest,
        plan: Plan,
        book: RosterBook,
        epoch: int,
        start: int,
        leader: Leader,
    ) -> None:
        self._office, self._manifest, self._plan, self._book = office, manifest, plan, book
        self._epoch, self._leader = epoch, leader
        self.judge = Judge(
            office, book, plan.on_straggler, plan.deadline_s, self.advance, horizon_s=plan.horizon_s
        )
        self.tentative = Tentative(office, epoch, self.advance, leader.shown)
        self.rates = Rates()
        self.lacking = Lacking(start)
        self.next = start
        self.trees = [Gathered(start) for _ in range(manifest.partitions)]
        self.errors: deque[str] = deque(maxlen=ERRORS_MAX)
        self.frozen = False
        self.founding = False
        self.paused = False
        self.behind = False
        self._closing: deque[Closing] = deque()
        self._handed = 0
        self._seen = Seen()
        self._reported: dict[int, int] = {}
        self._failed: list[tuple[int, int, int]] = []
        self._repaired_at: dict[int, float] = {}
        self._recovery = Recovery(office, manifest, plan.replicas, epoch, book, self.judge)
        self._pushed: tuple[int, float] | None = None
        self._hastened_at = float("-inf")
        self._resumed_at = float("-inf")
        self._timer: Timer | None = None

    @property
    def closed(self) -> int:
        """Everything below is published."""
        return self._closing[0].record.index if self._closing else self.next

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
        if self._closing or self.frontier is None:
            return self.closed
        first = self._first(self.next, self.frontier)
        return self.next if first is None else first

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
            self._resumed_at = self._office.now
        self.paused = paused
        self.advance()

    def collected(self, partition: int, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        """A segment arrived at the root of a tree."""
        mask = bits_of(segment.coverage)
        if any(len(entry.counts) > len(BUCKETS) for entry in segment.entries):
            self._office.stats["control.malformed"] += 1
            return
        if segment.stop > self.next:
            self.judge.seen(mask)
        self._take(partition, segment, payloads)

    def recovered(self, copy: Keep, payload: bytes) -> None:
        """A peer has what a dead member contributed: it counts, and its member stays dead."""
        stop = self._recovery.take(copy, payload, self.next, self.trees)
        if stop is not None:
            self._passed(stop)

    def _take(self, partition: int, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        tree = self.trees[partition]
        for conflict in tree.add(segment, payloads):
            self._office.stats["control.overlaps"] += 1
            self._repair(conflict, conflict + 1, partition)
        self._passed(segment.stop)

    def _passed(self, stop: int) -> None:
        """Somebody has sealed everything below `stop`."""
        self._seen.passed(stop, self._office.now)
        self.advance()

    def reported_frontier(self, number: int) -> int | None:
        """How far a member says it has sealed, None if it never had to say so."""
        return self._reported.get(number)

    def reported(self, number: int, frontier: int) -> None:
        """A member says how far it has sealed."""
        self._reported[number] = max(frontier, self._reported.get(number, frontier))
        self._passed(frontier)

    def dropped(self, partition: int, lost: PartsDropped | PartFault) -> None:
        """Contributions cannot be merged with the others: their agents are missing, and people learn why."""
        mask = bits_of(lost.coverage)
        self.errors.append(f"{', '.join(self._book.names(mask))}: {lost.error}")
        self._failed.append((lost.start, lost.stop, mask))
        self.trees[partition].fail(lost.start, lost.stop, mask)
        self.advance()

    def finalised(self, event: Finalised) -> None:
        """The rows of an interval are there, or cannot be made."""
        interval, rows, error = event.interval, event.rows, event.error
        closing = next((each for each in self._closing if each.record.index == interval), None)
        if closing is None or closing.record.rev != event.rev:
            if error or len(rows) > ROWS_BYTES_MAX:
                self.tentative.failed(interval, event.rev)
            else:
                self.tentative.made(interval, event.rev, rows)
            return
        if closing.rows is not None:
            return
        if not error and len(rows) > ROWS_BYTES_MAX:
            error = f"the result has {len(rows)} bytes, more than {ROWS_BYTES_MAX}; add LIMIT or PARTITIONS"
        if error:
            self.errors.append(f"interval {interval}: {error}")
            closing.record = replace(closing.record, state="SKIPPED")
        closing.rows = b"" if error else rows
        self.publish()

    def publish(self) -> None:
        """Hand on what is ready, in order; it is published when the control register has closed it."""
        while self._handed < len(self._closing) and not self.behind:
            ready = self._closing[self._handed]
            if ready.rows is None:
                return
            self._handed += 1
            self._leader.commit(ready.record, ready.rows)

    def committed(self, count: int) -> None:
        """So many of the oldest records are published."""
        for _ in range(count):
            done = self._closing.popleft()
            self.tentative.drop_below(done.record.index + 1)
        self._handed -= count
        self.advance()

    def advance(self) -> None:
        """Close whatever can be closed now."""
        before = self.closed
        open_to_close = not (self.frozen or self.founding)
        while open_to_close and len(self._closing) < IN_FLIGHT_MAX and self._close_run():
            pass
        if open_to_close and self._plan.on_straggler == "correct" and not self.paused:
            self._show()
        for number in self.judge.overdue_dead():
            self.judge.forget(number)
            self._book.evict(number, self.next)
            self._leader.evicted()
        if self.closed != before or (self.frozen and self.idle):
            self._leader.advanced()

    def _show(self) -> None:
        """Have what waits beyond its deadline shown as it is; it is corrected until it is closed."""
        at, stop = self.next, self.frontier
        for _ in range(OPEN_MAX):  # what is behind those has to wait until they are closed
            if stop is None or at >= stop or not self.tentative.has_room:
                return
            index = self._first(at, stop)
            due = None if index is None else self.due_since(index)
            if index is None or due is None:
                return
            if self._office.now < due + self._plan.deadline_s:
                self.tentative.wake(due + self._plan.deadline_s)
                return
            required = self._book.required(index)
            inside = covered_in_all(self.trees, index) & required
            rev = self.tentative.wants(index, inside)
            if rev:
                record, payloads = self._made_of(index, required, required & ~inside, "TENTATIVE", rev)
                self.tentative.begin(record, inside)
                self._finalise(record, payloads)
            at = index + 1

    def _first(self, start: int, stop: int) -> int | None:
        """The first interval in [start, stop) that anybody has records for."""
        found = [tree.first(start, stop) for tree in self.trees]
        return min((first for first in found if first is not None), default=None)

    def _close_run(self) -> bool:
        """Decide the run of intervals at `next` that are covered alike; False if it has to wait."""
        at, required = self.next, self._book.required(self.next)
        stop = self._book.changes_after(at)
        if not required:
            if stop == END:
                return False
            self.lacking.decided(at, stop, self._book.given)
            self._move(stop)
            return True
        stop = min(stop, *(tree.until(at) for tree in self.trees))
        missing = required & ~covered_in_all(self.trees, at)
        state: State = "FINAL"
        if missing:
            due = self.due_since(at)
            if due is None or self.paused:
                return False
            verdict = self._verdict(at, missing, due)
            if verdict is None:
                return False
            state, stop = verdict, min(stop, self._seen.last)
        first = self._first(at, stop)
        stop = stop if first is None else first + 1
        self.lacking.decided(at, stop, self._book.given & ~covered_in_all(self.trees, at))
        if first is not None:
            self._begin(first, required, missing, state)
        self._move(stop)
        return True

    def _verdict(self, at: int, missing: int, due: float) -> State | None:
        verdict, again = self.judge.judge(missing, due, self.frontier_of)
        if verdict == "SKIPPED" and not self._skippable(at, missing, due):
            verdict, again = None, self._office.now + HASTEN_S / 4
        lacking = missing | self._book.required(at) & ~covered_in_all(self.trees, at, every_attempt=True)
        ready = self._recovery.ask(lacking, at)
        if verdict == "FINAL_PARTIAL" and self._office.now < ready:
            verdict, again = None, ready
        if verdict is None and sum(tree.nbytes for tree in self.trees) > HELD_BYTES_MAX:
            self.errors.append("too much is held for members that are behind; not waiting any longer")
            verdict = "FINAL_PARTIAL"
        if verdict is None:
            self._wake(again)
            if self._office.now >= due + self._plan.deadline_s:
                self._push(at, missing)
        return verdict

    def _skippable(self, at: int, missing: int, due: float) -> bool:
        """Whether the missing are behind themselves, and not only held up on the way to us."""
        late = any(missing >> number & 1 and frontier > at for number, frontier in self._reported.items())
        pushed = self._pushed is not None and self._pushed[0] == at
        waited = pushed and self._pushed is not None and self._office.now - self._pushed[1] >= HASTEN_S
        return (waited and not late) or self._office.now - due >= HORIZON_S

    def _push(self, at: int, missing: int) -> None:
        """The deadline is over: what is held back on the way shall come, what was lost shall come again."""
        stop = self._seen.last
        if self._pushed is None or self._pushed[0] != at:
            self._pushed = (at, self._office.now)
        if self._office.now - self._hastened_at >= max(HASTEN_S, self._plan.deadline_s):
            self._hastened_at = self._office.now
            self._leader.hasten(stop)
        due = self.due_since(at)
        if due is None or self._office.now < due + self._plan.deadline_s + REPAIR_S:
            return
        if any(missing >> number & 1 and frontier > at for number, frontier in self._reported.items()):
            for partition in range(len(self.trees)):
                self._repair(at, stop, partition)

    def _repair(self, start: int, stop: int, partition: int) -> None:
        if self._office.now - self._repaired_at.get(partition, float("-inf")) >= REPAIR_S:
            self._repaired_at[partition] = self._office.now
            self._office.stats["control.recollections"] += 1
            self._leader.recollect(start, stop, partition, self.trees[partition].attempt(start) + 1)

    def frontier_of(self, number: int) -> int:
        """First open interval that lacks a member in any tree."""
        return min(tree.frontier(number) for tree in self.trees)

    def _begin(self, index: int, required: int, missing: int, state: State) -> None:
        for start, stop, mask in self._failed:
            if start <= index < stop and mask & required:
                missing, state = missing | mask & required, "FINAL_PARTIAL" if state == "FINAL" else state
                self.lacking.decided(index, index + 1, mask & required)
        rev = self.tentative.rev(index) + 1
        record, payloads = self._made_of(index, required, missing, state, rev)
        heavy = state != "SKIPPED" and any(payloads)
        self._closing.append(Closing(record, None if heavy else b""))
        if heavy:
            self._finalise(record, payloads)
        else:
            self._office.after(0.0, self.publish)

    def _finalise(self, record: ResultRecord, payloads: tuple[tuple[bytes, ...], ...]) -> None:
        job, index, rev = self._manifest.job_id, record.index, record.rev
        self._office.emit(Finalise(job, self._epoch, self._manifest, index, payloads, rev))

    def _made_of(
        self, index: int, required: int, missing: int, state: State, rev: int
    ) -> tuple[ResultRecord, tuple[tuple[bytes, ...], ...]]:
        """The record of an interval from what is here, and the payloads that its rows are made of."""
        parts = [tree.parts(index) for tree in self.trees]
        counts = add_counts(part.counts for tree in parts for part in tree)
        names, share = self._book.names(missing), self.rates.fidelity(required, missing, counts)
        about = (index, state, rev, self._epoch, self._plan.window(index))
        outside = self._book.given & (~covered_in_all(self.trees, index) | missing)
        record = make_record(self._manifest, about, required, missing, names, share, counts, outside)
        return record, tuple(tuple(part.payload for part in tree if part.payload) for tree in parts)

    def _move(self, stop: int) -> None:
        self.next = stop
        for tree in self.trees:
            tree.drop_below(stop)
        self._seen.drop_below(stop)
        self._failed = [each for each in self._failed if each[1] > stop]

    def _wake(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._office.after(max(at - self._office.now, 0.001), self.advance)

    def stop(self) -> None:
        """Not the master any more."""
        self.frozen = True
        self._closing.clear()
        self._handed = 0
        self.tentative.clear()
        if self._timer is not None:
            self._timer.cancel()

"""What one member has sealed and no record closes yet, on its way up the trees of a job.

Owns the order and the pace in which it goes up. Under a new number or a new master everything that is open
goes up again, since the trees forget earlier epochs, and after a restart: oldest first, in bursts, so that a
side that was cut off for long does not flood the roots (D-15). What the worker seals meanwhile waits its
turn, since its interval cannot be closed before the older ones; each burst takes as much more as was sealed
since the last one, so that the backlog shrinks however much is sealed.

Invariants: the ranges of one term go up in order and touch each other, none is said twice and none is left
out, but for what was closed before its turn. What was closed before the worker sealed it does not go up, and
is released like what did: its outcome is to be found out. A revision of what went up goes up behind it, by
itself.

Paper: none; ELF 3 replays from the logs at full speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from elfmesh.contribution import around_revisions, payload_bytes, within
from elfmesh.control.context import Context, Timer
from elfmesh.control.protocol.events import Revised, Sealed
from elfmesh.interval_map import END
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Contribute
from elfmesh.srt.messages import Segment
from elfmesh.srt.parts import entries_of

PACE_S = 0.25
"""Between two bursts: a live interval of a second still finds room between them."""

BURST_INTERVALS = 32
"""Twice what may be open in a healthy job twice over (D-6): an ordinary change of masters is one burst."""

BURST_BYTES = 1 << 20
"""4 MiB/s a member: 32 children bring a parent no more than its disk and its link take in a second."""


@dataclass(slots=True)
class SealedContribution:
    """One sealed range, and the number it goes up (or went up) under."""

    event: Sealed
    number: int
    sent: bool = False

    @property
    def weight(self) -> tuple[int, int]:
        """Intervals with something in them, at least 1, and bytes."""
        return max(1, len(self.event.parts[0])), payload_bytes(self.event.parts)


class Contributions:
    """The open contributions of one member.

    Args:
        context: clock and way out.
        trees: of the job, one per partition.
        sent: told of each range that goes up, its number, and whether it goes up again.
    """

    def __init__(
        self, context: Context, trees: Sequence[bytes], sent: Callable[[Sealed, int, bool], None]
    ) -> None:
        self._context, self._trees, self._sent = context, trees, sent
        self.frontier: int | None = None
        self.until: int | None = None
        self._kept: deque[SealedContribution] = deque()
        self._backlog: deque[SealedContribution] = deque()
        self._closed: int | None = None
        self._sealed: int | None = None
        """The worker has sealed everything below. `frontier` lies beyond it where a term begins there: the
        intervals in between were closed before they were sealed."""
        self._epoch = self._number = self._first = 0
        self._missed: int | None = None
        """Where the first range began that was refused: what lies before it is open, and was not said."""
        self._arrived = [0, 0]
        self._timer: Timer | None = None

    @property
    def gone_up(self) -> int | None:
        """Everything below went up in this term; None before the first one."""
        return max(self._backlog[0].event.start, self._first) if self._backlog else self.frontier

    @property
    def waiting(self) -> int:
        """Ranges that have not gone up in this term yet."""
        return len(self._backlog)

    def begin(self, number: int, epoch: int, first: int, begun: int | None = None) -> None:
        """A new term begins with interval `first`: everything open from there on goes up again.

        The worker seals from interval `begun` on; None: from `first`.
        """
        if self._sealed is None:
            self._sealed = first if begun is None else begun
        self._epoch, self._number, self._first = epoch, number, first
        for tree in self._trees:
            self._context.emit(Contribute(tree, Segment(epoch, 0, first, first, bitmap_of(1 << number))))
        kept, self._kept = self._kept, deque()
        self._backlog.clear()
        for each in kept:
            self._kept += self._decided_as_it_went_up(each, number, first)
            if each.event.stop > first:
                self._again(each, number, first)
        self.frontier = max(first, self._kept[-1].event.stop) if self._kept else first
        if self._timer is not None:
            self._timer.cancel()
        self._pace()

    @safeguard("decided-by-its-number:kept")
    def _decided_as_it_went_up(
        self, each: SealedContribution, number: int, first: int
    ) -> list[SealedContribution]:
        """What this term does not expect of us is decided under the number that it went up by.

        That may be the same number, where a master did not know the roster of its predecessor.
        """
        if each.event.stop <= first:
            return [each]
        if each.number == number or each.event.start >= first:
            return []
        return [SealedContribution(each.event.within(each.event.start, first), each.number, each.sent)]

    def _again(self, each: SealedContribution, number: int, first: int) -> None:
        if each.number != number:
            each = SealedContribution(each.event.within(first, END), number, each.sent)
        self._kept.append(each)
        self._backlog.append(each)

    def add(self, event: Sealed) -> None:
        """The worker has sealed a range: it goes up now, or behind what has to go up again."""
        if self.frontier is None:
            raise RuntimeError("contributing needs a number")
        if self.until is not None:
            event = event.within(event.start, self.until)
        self._closed_unsealed(event, self.frontier)
        if event.stop <= self.frontier:
            return
        # What lies before is closed, or the worker was begun again and says it again.
        event = event.within(self.frontier, END)
        kept = SealedContribution(event, self._number)
        if self._backlog or event.again:
            self._backlog.append(kept)
            if not event.again:
                self._arrived = [sum(pair) for pair in zip(self._arrived, kept.weight, strict=True)]
            if self._timer is None:
                self._timer = self._context.after(0.0, self._pace)
        else:
            self._send(kept, self.frontier)
        self.frontier = event.stop
        self._kept.append(kept)

    @safeguard("closed-before-sealed")
    def _closed_unsealed(self, event: Sealed, frontier: int) -> None:
        assert self._sealed is not None
        start, stop = max(event.start, self._sealed), min(event.stop, frontier)
        if start < stop:
            self._kept.append(SealedContribution(event.within(start, stop), self._number))
        self._sealed = max(self._sealed, event.stop)

    def joined(self, event: Sealed) -> Sealed | None:
        """A range that touches what was said so far; None if what lies between is open or was refused.

        A worker that begins behind the first interval of a term, or has closed ranges of another version to
        say, leaves a gap. Once the gap is closed no interval waits for it, and the member says that it is
        empty.
        """
        if self.frontier is not None and event.start > self.frontier:
            if self._closed is None or event.start > self._closed:
                self._missed = event.start if self._missed is None else min(self._missed, event.start)
                return None
            event = replace(event, start=self.frontier)
        if self._is_behind_refused(event.start):
            return None
        if self._missed is not None and event.stop > self._missed:
            self._missed = None
        return event

    @safeguard("refused-again:range")
    def _is_behind_refused(self, start: int) -> bool:
        """Whether a refused range lies before: both go up when the worker says them again.

        A later term may begin behind the refused range, and expect the next one. If that went up, the worker
        would not be begun again, and nothing would settle the refused range.
        """
        return self._missed is not None and start > self._missed

    @safeguard("refused-again:revision")
    def was_refused(self, interval: int) -> bool:
        """Whether the worker has to say an interval again, with the revisions that it has made of it."""
        return self._missed is not None and interval >= self._missed and not self.has(interval)

    def can_catch_up(self) -> bool:
        """Whether what was refused may go up now, if the worker says it again; true once."""
        if self._missed is None or self._closed is None or self._closed < self._missed:
            return False
        self._missed = None
        return True

    @property
    def undecided(self) -> int | None:
        """The first interval that was not released, or was never sealed; None before there is a number."""
        return self._kept[0].event.start if self._kept else self._sealed

    def has(self, interval: int) -> bool:
        """Whether an interval is open here."""
        return any(each.event.start <= interval < each.event.stop for each in self._kept)

    def revise(self, event: Revised) -> bool:
        """An interval's contribution is another now; False if it is not open here."""
        for kept in reversed(self._kept):
            if kept.event.start <= event.interval < kept.event.stop:
                kept.event = kept.event.revised(event)
                waits = any(each is kept for each in self._backlog)
                if not waits and kept.number == self._number and event.interval >= self._first:
                    self._send_range(kept.event, event.interval, event.interval + 1)
                    self._sent(kept.event, self._number, True)
                return True
        return False

    def release(self, closed: int) -> list[SealedContribution]:
        """Everything below `closed` is closed: the ranges that are not open any more, oldest first."""
        self._closed = closed
        done = []
        while self._kept and self._kept[0].event.stop <= closed:
            done.append(self._kept.popleft())
        return done

    def rewind(self, at: int) -> None:
        """What was evaluated from interval `at` on is no part of the job any more: it comes again.

        Only before a new term: in this one it may have gone up.
        """
        for queue in (self._kept, self._backlog):
            while queue and queue[-1].event.start >= at:
                queue.pop()
            if queue and queue[-1].event.stop > at:
                queue[-1].event = queue[-1].event.within(queue[-1].event.start, at)
        if self.frontier is not None and self._sealed is not None:
            self.frontier = min(self.frontier, max(at, self._first))
            self._sealed = min(self._sealed, at)

    def stop(self) -> None:
        self._backlog.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _pace(self) -> None:
        self._timer = None
        intervals, nbytes = BURST_INTERVALS + self._arrived[0], BURST_BYTES + self._arrived[1]
        self._arrived = [0, 0]
        while self._backlog and intervals > 0 and nbytes > 0:
            kept = self._backlog.popleft()
            if self._closed is not None and kept.event.stop <= self._closed:
                continue
            self._send(kept, max(kept.event.start, self._first))
            intervals, nbytes = intervals - kept.weight[0], nbytes - kept.weight[1]
        if self._backlog:
            self._timer = self._context.after(PACE_S, self._pace)

    def _send(self, kept: SealedContribution, start: int) -> None:
        event = kept.event if self.until is None else kept.event.within(kept.event.start, self.until)
        if event.stop <= start:
            return
        self._send_range(event, start, event.stop)
        self._sent(event, self._number, kept.sent)
        kept.sent = True

    def _send_range(self, event: Sealed, start: int, stop: int) -> None:
        """Contribute [start, stop) of a range, each revision in it by itself."""
        if self.until is not None:
            stop = min(stop, self.until)
        coverage = bitmap_of(1 << self._number)
        for tree, run in zip(self._trees, event.parts, strict=True):
            for low, high in around_revisions(run, start, stop):
                piece = within(run, low, high)
                segment = Segment(self._epoch, 0, low, high, coverage, entries_of(piece))
                self._context.emit(Contribute(tree, segment, tuple(each.payload for each in piece)))

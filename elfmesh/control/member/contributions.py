"""The sealed contributions of one member that no record closes yet, on their way up the trees of a job.

Owns the order and the pace in which they go up. A member contributes everything that is open again under a
new number, to a new master and after a restart, because the trees forget earlier epochs. The oldest ranges go
up first, in bursts, so that members that were cut off for long do not flood the roots (D-15). What the worker
seals meanwhile waits behind them, because its interval cannot be closed before the older ones. Each burst
also takes as much as was sealed since the last one, so the backlog shrinks at any rate of sealing.

Invariants: the ranges of one term go up in order and touch each other. Each goes up once, unless it is closed
before its turn. A range that was closed before the worker sealed it does not go up; it is released like the
others, because its outcome is open. A revision goes up by itself, behind the contribution that it replaces.

Paper: none; ELF 3 replays from the logs at full speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from elfmesh.contribution import around_revisions, payload_bytes, within
from elfmesh.control.context import Alarm, Context
from elfmesh.control.member.trees import MemberTrees
from elfmesh.control.protocol.events import Revised, Sealed
from elfmesh.interval_map import END
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment
from elfmesh.srt.parts import entries_of

PACE_S = 0.25
"""Between two bursts. The live contributions of intervals of a second go up between them."""

BURST_INTERVALS = 32
"""Well above the number of open intervals in a healthy job (D-6): a usual change of masters is one burst."""

BURST_BYTES = 1 << 20
"""4 MiB/s for a member. A disk and a link can take what 32 children send to their parent."""


@dataclass(slots=True)
class SealedContribution:
    """One sealed range, and the number under which it goes up.

    Attributes:
        event: the range.
        number: of the member.
        sent: whether the range went up before in this process.
    """

    event: Sealed
    number: int
    sent: bool = False

    @property
    def weight(self) -> tuple[int, int]:
        """The number of intervals with contributions, at least 1, and their bytes."""
        return max(1, len(self.event.parts[0])), payload_bytes(self.event.parts)


class Contributions:
    """The open contributions of one member.

    Args:
        trees: to which the member contributes.
        sent: called with each range that goes up, its number, and whether it goes up again.

    Attributes:
        frontier: one past the last interval that goes up in this term, None before the first term.
        until: the first interval that is not expected of the member any more, None while it stays.
    """

    def __init__(
        self, context: Context, trees: MemberTrees, sent: Callable[[Sealed, int, bool], None]
    ) -> None:
        self._context, self._trees, self._sent = context, trees, sent
        self.frontier: int | None = None
        self.until: int | None = None
        self._kept: deque[SealedContribution] = deque()
        self._backlog: deque[SealedContribution] = deque()
        self._closed: int | None = None
        self._sealed: int | None = None
        """The worker has sealed everything below. If a term begins behind it, `frontier` is higher, and the
        intervals between them were closed before they were sealed."""
        self._epoch = self._number = self._first = 0
        self._missed: int | None = None
        """Where the first refused range begins, None if no range is refused."""
        self._arrived = [0, 0]
        self._alarm = Alarm(context, self._pace)

    @property
    def gone_up(self) -> int | None:
        """The first interval that did not go up in this term, None before the first term."""
        return max(self._backlog[0].event.start, self._first) if self._backlog else self.frontier

    @property
    def waiting(self) -> int:
        """The number of ranges that did not go up in this term yet."""
        return len(self._backlog)

    def begin(self, number: int, epoch: int, first: int, begun: int | None = None) -> None:
        """Begin a new term: everything that is open from interval `first` on goes up again.

        Args:
            number: of the member on the roster of this term.
            epoch: of the term.
            first: the first interval that the master expects.
            begun: the first interval that the worker seals, None if that is `first`.
        """
        if self._sealed is None:
            self._sealed = first if begun is None else begun
        self._epoch, self._number, self._first = epoch, number, first
        self._trees.declare(Segment(epoch, 0, first, first, bitmap_of(1 << number)))
        kept, self._kept = self._kept, deque()
        self._backlog.clear()
        for each in kept:
            self._kept += self._decided_as_it_went_up(each, number, first)
            if each.event.stop > first:
                self._again(each, number, first)
        self.frontier = max(first, self._kept[-1].event.stop) if self._kept else first
        self._alarm.cancel()
        self._pace()

    @safeguard("decided-by-its-number:kept")
    def _decided_as_it_went_up(
        self, each: SealedContribution, number: int, first: int
    ) -> list[SealedContribution]:
        """The part of a range that this term does not expect. It is released when it is closed.

        The member's number may be the same, because a master may lack the roster of its predecessor.
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
        """The worker has sealed a range. It goes up now, or behind the ranges that go up again.

        Raises:
            RuntimeError: the member has no number yet.
        """
        if self.frontier is None:
            raise RuntimeError("a member without a number cannot contribute")
        if self.until is not None and event.stop > self.until:
            self._refuse(max(event.start, self.until))
            event = event.within(event.start, self.until)
        self._closed_unsealed(event, self.frontier)
        if event.stop <= self.frontier:
            return
        # The intervals below are closed, or the worker was started again and reports them again.
        event = event.within(self.frontier, END)
        kept = SealedContribution(event, self._number)
        if self._backlog or event.again:
            self._backlog.append(kept)
            if not event.again:
                self._arrived = [sum(pair) for pair in zip(self._arrived, kept.weight, strict=True)]
            if not self._alarm.is_set:
                self._alarm.set(0.0)
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
        """The range, extended so that it touches the last one; None if it is refused.

        A worker that begins behind the first interval of a term leaves a gap, and so does one that reports
        closed ranges of another version. While the gap is open, a contribution for it may still come, so the
        range behind the gap is refused. After the gap is closed, the member contributes nothing for it.
        """
        if self.frontier is not None and event.start > self.frontier:
            if self._closed is None or event.start > self._closed:
                self._refuse(event.start)
                return None
            event = replace(event, start=self.frontier)
        if self._is_behind_refused(event.start):
            return None
        if self._missed is not None and event.stop > self._missed:
            self._missed = None
        return event

    def _refuse(self, start: int) -> None:
        self._missed = start if self._missed is None else min(self._missed, start)

    @safeguard("refused-again:range")
    def _is_behind_refused(self, start: int) -> bool:
        """Whether a refused range lies before this interval. The worker then reports both of them again.

        A later term may begin behind the refused range, and expect the next one. If that went up, the worker
        would not be started again, and the refused range would be in no bucket.
        """
        return self._missed is not None and start > self._missed

    @safeguard("refused-again:revision")
    def was_refused(self, interval: int) -> bool:
        """Whether the worker must report an interval again. It then reports its revisions as well."""
        return self._missed is not None and interval >= self._missed and not self.has(interval)

    def can_catch_up(self) -> bool:
        """Whether the worker shall report the refused ranges again, because the gap is closed; true once.

        What lies behind the last interval of a number waits for the next number.
        """
        if self._missed is None or self._closed is None or self._closed < self._missed:
            return False
        if self.until is not None and self.until <= self._missed:
            return False
        self._missed = None
        return True

    @property
    def undecided(self) -> int | None:
        """The first interval that is not released or was not sealed, None before the first number."""
        return self._kept[0].event.start if self._kept else self._sealed

    def open(self) -> list[tuple[Sealed, int]]:
        """Return the ranges that are not closed and went up, with the number under which they did."""
        waiting = {id(each) for each in self._backlog}
        return [(each.event, each.number) for each in self._kept if id(each) not in waiting]

    def has(self, interval: int) -> bool:
        """Whether an interval is sealed and not released."""
        return any(each.event.start <= interval < each.event.stop for each in self._kept)

    def revise(self, event: Revised) -> bool:
        """Replace the contribution of an interval; return False if `has` is false for it."""
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
        """Everything below `closed` is closed. Return the ranges that are not open any more, oldest first."""
        self._closed = closed
        done = []
        while self._kept and self._kept[0].event.stop <= closed:
            done.append(self._kept.popleft())
        return done

    def rewind(self, at: int) -> None:
        """Drop what was sealed from interval `at` on, because another version evaluates it again.

        Called before a new term begins, because the ranges may have gone up in the present one.
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
        self._alarm.cancel()

    def _pace(self) -> None:
        intervals, nbytes = BURST_INTERVALS + self._arrived[0], BURST_BYTES + self._arrived[1]
        self._arrived = [0, 0]
        while self._backlog and intervals > 0 and nbytes > 0:
            kept = self._backlog.popleft()
            if self._closed is not None and kept.event.stop <= self._closed:
                continue
            self._send(kept, max(kept.event.start, self._first))
            intervals, nbytes = intervals - kept.weight[0], nbytes - kept.weight[1]
        if self._backlog:
            self._alarm.set(PACE_S)

    def _send(self, kept: SealedContribution, start: int) -> None:
        event = kept.event if self.until is None else kept.event.within(kept.event.start, self.until)
        if event.stop <= start:
            return
        self._send_range(event, start, event.stop)
        self._sent(event, self._number, kept.sent)
        kept.sent = True

    def _send_range(self, event: Sealed, start: int, stop: int) -> None:
        """Contribute [start, stop) of a range, and each revision in it by itself."""
        if event.ahead:
            return
        if self.until is not None:
            stop = min(stop, self.until)
        coverage = bitmap_of(1 << self._number)
        for partition, run in zip(self._trees.partitions, event.parts, strict=True):
            for low, high in around_revisions(run, start, stop):
                piece = within(run, low, high)
                rule = self._context.policy.keep_in
                segment = Segment(self._epoch, 0, low, high, coverage, entries_of(piece), rule)
                self._trees.contribute(partition, segment, tuple(each.payload for each in piece))

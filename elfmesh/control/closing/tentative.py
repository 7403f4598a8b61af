"""What a job's open intervals look like so far: results that may still be corrected (D-9).

Owns the newest tentative record of every open interval and who may see it. Decides nothing about closing and
writes nothing to disk: tentative results are soft state, a successor makes its own.

Invariants: an interval's revisions grow by one, its coverage never shrinks between them (I9); the terminal
record's revision is above all of them; at most `OPEN_MAX` intervals are held and `IN_FLIGHT_MAX` made at a
time; what is held grows with its rows only up to `BYTES_MAX`.

Paper: PPA 3 ("tentative outputs", corrected later). Deviation: a tentative result is made of all that has
arrived of every interval, not of chosen partitions of the input, because agents aggregate where the data is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sortedcontainers import SortedDict

from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.records import ResultRecord

OPEN_MAX = 64
"""Open intervals that are shown; later ones have to wait until these are closed."""

IN_FLIGHT_MAX = 2
BYTES_MAX = 64 << 20
GAP_S = 0.25
"""Least time between two revisions of an interval: contributions that arrive together are one correction."""


Inside = tuple[int, int]
"""The members inside, as a bit set, and the sum of the revisions of their contributions."""


@dataclass(slots=True)
class _Open:
    """One interval: what its newest revision, made or being made, has in it."""

    inside: Inside
    rev: int
    at: float
    being_made: ResultRecord | None
    record: ResultRecord | None = None
    rows: bytes = b""
    seq: int = 0


class Tentative:
    """The tentative records of one job.

    Args:
        context: clock and timers.
        epoch: of the master; numbers of revisions grow over its successors, too.
        again: asks whether there is something to make, a little later.
        shown: called when there is a new revision.
    """

    def __init__(
        self, context: Context, epoch: int, again: Callable[[], None], shown: Callable[[], None]
    ) -> None:
        self._context, self._again, self._shown = context, again, shown
        self._open: SortedDict[int, _Open] = SortedDict()
        self._timer: Timer | None = None
        self._bytes = 0
        self.seq = epoch << 32
        """Number of the newest revision, over all intervals."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_room(self) -> bool:
        making = sum(each.being_made is not None for each in self._open.values())
        return making < IN_FLIGHT_MAX and self._bytes < BYTES_MAX

    def wants(self, index: int, inside: Inside) -> int:
        """The revision to make of an interval with so much inside; 0: none is needed now."""
        known: _Open | None = self._open.get(index)
        if known is None:
            return 1 if inside[0] and len(self._open) < OPEN_MAX else 0
        lost = known.inside[0] & ~inside[0] or inside[1] < known.inside[1]
        if known.being_made is not None or inside == known.inside or lost:
            return 0
        if self._context.now - known.at < GAP_S:
            self.wake(known.at + GAP_S)
            return 0
        return known.rev + 1

    def begin(self, record: ResultRecord, inside: Inside) -> None:
        known = self._open.get(record.index)
        if known is None:
            self._open[record.index] = _Open(inside, record.rev, self._context.now, record)
        else:
            known.inside, known.rev, known.at, known.being_made = (
                inside,
                record.rev,
                self._context.now,
                record,
            )

    def made(self, index: int, rev: int, rows: bytes) -> None:
        """The rows of a revision are there; one that was overtaken by the end of its interval is dropped."""
        known = self._open.get(index)
        if known is None or known.being_made is None or known.being_made.rev != rev:
            return
        self._bytes += len(rows) - len(known.rows)
        self.seq += 1
        known.record, known.rows, known.seq, known.being_made = known.being_made, rows, self.seq, None
        self._shown()
        self._again()

    def failed(self, index: int, rev: int) -> None:
        """A revision cannot be made: the next one, with more in it, may."""
        known = self._open.get(index)
        if known is not None and known.being_made is not None and known.being_made.rev == rev:
            known.being_made = None

    def number(self, index: int) -> int:
        """The number of an interval's newest revision, over all intervals; 0 if there is none."""
        known = self._open.get(index)
        return known.seq if known is not None else 0

    def rev(self, index: int) -> int:
        """The last revision of an interval that may have been seen, 0 if there is none."""
        known = self._open.get(index)
        return known.rev if known is not None else 0

    def drop_below(self, index: int) -> None:
        while self._open and self._open.keys()[0] < index:
            self._bytes -= len(self._open.popitem(0)[1].rows)

    def clear(self) -> None:
        self._open.clear()
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def since(self, seq: int) -> Iterator[tuple[ResultRecord, bytes]]:
        """The newest revisions behind number `seq`, in the order they were made."""
        found = [each for each in self._open.values() if each.record is not None and each.seq > seq]
        for each in sorted(found, key=lambda one: one.seq):
            if each.record is not None:
                yield each.record, each.rows

    def wake(self, at: float) -> None:
        """Ask again at a time, or earlier if that was wished before."""
        if self._timer is not None:
            if self._timer.at <= at:
                return
            self._timer.cancel()
        self._timer = self._context.after(max(at - self._context.now, 0.001), self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._again()

"""Tentative records: results of open intervals that may still be corrected (D-9).

Owns the newest tentative record of each open interval. Makes no decision about closing and writes nothing to
disk, because a successor makes its own tentative records.

Invariants: the revisions of an interval grow by one, and its coverage never shrinks between them (I9). The
revision of the terminal record is above all of them. At most `OPEN_MAX` intervals have tentative records, and
`IN_FLIGHT_MAX` are being made. No record is begun while the rows exceed `BYTES_MAX`.

Paper: PPA 3 ("tentative outputs", corrected later). Deviation: a tentative result represents everything that
has arrived for an interval, and not chosen partitions of the input, because agents aggregate where the data
is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sortedcontainers import SortedDict

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.records import ResultRecord

OPEN_MAX = 64
"""Maximum number of open intervals with tentative records; later intervals wait until these are closed."""

IN_FLIGHT_MAX = 2
BYTES_MAX = 64 << 20
GAP_S = 0.25
"""Minimum time between two revisions of an interval, because contributions often arrive together."""

Inside = tuple[int, int, int]
"""The members inside, as a bit set, the sum of the revisions of their contributions, and the number of
records in prefixes of other members."""


@dataclass(slots=True)
class _Open:
    """One interval; `inside`, `rev` and `at` are those of its newest revision, made or being made."""

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
        epoch: epoch of the master; it is part of `seq`, so that successors continue with higher numbers.
        again: called when another tentative record may be made.
        shown: called when there is a new revision.
    """

    def __init__(
        self, context: Context, epoch: int, again: Callable[[], None], shown: Callable[[], None]
    ) -> None:
        self._context, self._again, self._shown = context, again, shown
        self._open: SortedDict[int, _Open] = SortedDict()
        self.alarm = Alarm(context, again)
        """Calls `again` at a time."""
        self._bytes = 0
        self.seq = epoch << 32
        """Number of the newest revision of any interval."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_room(self) -> bool:
        making = sum(each.being_made is not None for each in self._open.values())
        return making < IN_FLIGHT_MAX and self._bytes < BYTES_MAX

    def wants(self, index: int, inside: Inside) -> int:
        """Return the number of the revision to make of an interval with this content; 0: none now."""
        known: _Open | None = self._open.get(index)
        if known is None:
            return 1 if inside[0] and len(self._open) < OPEN_MAX else 0
        lost = known.inside[0] & ~inside[0] or inside[1] < known.inside[1]
        if known.being_made is not None or inside == known.inside or lost:
            return 0
        if self._context.now - known.at < GAP_S:
            self.alarm.wake(known.at + GAP_S)
            return 0
        return known.rev + 1

    def begin(self, record: ResultRecord, inside: Inside) -> None:
        known = self._open.get(record.index)
        if known is None:
            self._open[record.index] = _Open(inside, record.rev, self._context.now, record)
        else:
            known.inside, known.rev, known.at = inside, record.rev, self._context.now
            known.being_made = record

    def made(self, index: int, rev: int, rows: bytes) -> None:
        """Take the rows of a revision, unless its interval has been closed meanwhile."""
        known = self._open.get(index)
        if known is None or known.being_made is None or known.being_made.rev != rev:
            return
        self._bytes += len(rows) - len(known.rows)
        self.seq += 1
        known.record, known.rows, known.seq, known.being_made = known.being_made, rows, self.seq, None
        self._shown()
        self._again()

    def failed(self, index: int, rev: int) -> None:
        """Handle that a revision cannot be made; a later one may succeed."""
        known = self._open.get(index)
        if known is not None and known.being_made is not None and known.being_made.rev == rev:
            known.being_made = None

    def number(self, index: int) -> int:
        """Return `seq` of an interval's newest revision; 0 if there is none."""
        known = self._open.get(index)
        return known.seq if known is not None else 0

    def rev(self, index: int) -> int:
        """Return the last revision of an interval that clients may have seen; 0 if there is none."""
        known = self._open.get(index)
        return known.rev if known is not None else 0

    def newest(self, index: int) -> tuple[float, bytes] | None:
        """Return fidelity and rows of an interval's newest revision; None if there is none."""
        known = self._open.get(index)
        return (
            (known.record.fidelity, known.rows)
            if known is not None and known.record is not None and known.rows
            else None
        )

    def drop_below(self, index: int) -> None:
        while self._open and self._open.keys()[0] < index:
            self._bytes -= len(self._open.popitem(0)[1].rows)

    def clear(self) -> None:
        self._open.clear()
        self._bytes = 0
        self.alarm.cancel()

    def since(self, seq: int) -> Iterator[tuple[ResultRecord, bytes]]:
        """Yield the newest revisions with a number above `seq`, in the order in which they were made."""
        found = [each for each in self._open.values() if each.record is not None and each.seq > seq]
        for each in sorted(found, key=lambda one: one.seq):
            if each.record is not None:
                yield each.record, each.rows

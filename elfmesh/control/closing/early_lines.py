"""Early lines: the rows of open windows that were emitted in this epoch, until their windows close (EARLY).

Owns the lines and their order among the tentative records, and what a final record states about them. Nothing
of this is on disk: a successor emits lines of its own.

Invariants: a line has at least one row. Lines of one interval have growing `rev`. A line is dropped when the
record of its interval is published, and no line of a decided interval is added.

Paper: Blazes III. Guarantee D-19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace
from sortedcontainers import SortedDict

from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.jobs.early_rows import withdrawn_rows
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.safeguards import safeguard

BYTES_MAX = 64 << 20
"""Maximum size of the rows of all lines; further rows wait for their final records."""

Line = tuple[int, ResultRecord, bytes]
"""Number of a line among all lines of the job, its record and its rows."""


class EarlyLines:
    """Early lines of one job in one term.

    Args:
        plan: of the newest version.
        epoch: epoch of the master.
        tentative: the tentative records, with which the lines share their numbers.
        shown: called when there is a new line.
    """

    def __init__(self, plan: JobPlan, epoch: int, tentative: Tentative, shown: Callable[[], None]) -> None:
        self._plan, self._epoch, self._tentative, self._shown = plan, epoch, tentative, shown
        self._open: SortedDict[int, list[tuple[int, ResultRecord, bytes, int]]] = SortedDict()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        return self._bytes < BYTES_MAX

    def rev(self, index: int) -> int:
        """Return the `rev` of the next line of an interval."""
        return len(self._open.get(index, ())) + 1

    def add(self, record: ResultRecord, rows: bytes, count: int) -> None:
        """Add a line with `count` rows."""
        self._tentative.seq += 1
        self._open.setdefault(record.index, []).append((self._tentative.seq, record, rows, count))
        self._bytes += len(rows)
        self._shown()

    def since(self, seq: int) -> Iterator[Line]:
        """Yield the lines with a number above `seq`, by interval."""
        for lines in self._open.values():
            yield from ((number, record, rows) for number, record, rows, _ in lines if number > seq)

    def rows_of(self, record: ResultRecord) -> tuple[bytes, ...]:
        """Return the rows of all lines of the intervals that a record represents."""
        inside = self._open.irange(record.first, record.index)
        return tuple(rows for index in inside for _, _, rows, _ in self._open[index])

    @safeguard("early-withdrawn")
    def judged(self, record: ResultRecord, withdrawn: tuple[dict[str, Any], ...] | None) -> ResultRecord:
        """Return a record with what it states about early rows; a clean one states nothing.

        Args:
            record: of an interval, with its counts.
            withdrawn: the early rows that are not among its rows; None: it has no rows.
        """
        if self._plan.early_us is None:
            return record
        if withdrawn is None:
            withdrawn = tuple(withdrawn_rows(self.rows_of(record), None, self._plan.stable))
        if record.is_clean and not withdrawn:
            return record
        emitted = sum(
            count
            for index in self._open.irange(record.first, record.index)
            for _, _, _, count in self._open[index]
        )
        early = {"emitted": emitted, "epoch": self._epoch}
        return replace(record, clean=False, early=early, withdrawn=list(withdrawn))

    def drop_below(self, index: int) -> None:
        while self._open and self._open.keys()[0] < index:
            self._bytes -= sum(len(rows) for _, _, rows, _ in self._open.popitem(0)[1])

    def clear(self) -> None:
        self._open.clear()
        self._bytes = 0

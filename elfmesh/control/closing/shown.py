"""Lines that are not final, in the order in which followers of a job receive them.

Owns the order of tentative records and early lines, which share one sequence of numbers: a follower names the
last number that it has. Holds no lines.

Invariant: a line of an interval is never sent after the final record of the interval.
"""

from __future__ import annotations

from elfmesh.control.closing.early_lines import EarlyLines, Line
from elfmesh.control.closing.tentative import Tentative


class NoLines:
    """Lines of a site, which serves final records only."""

    seq = 0

    def since(self, seq: int, start: int, *, early: bool) -> list[Line]:
        return []


class ShownLines:
    """Lines of one term."""

    def __init__(self, tentative: Tentative, early: EarlyLines) -> None:
        self._tentative, self._early = tentative, early

    @property
    def seq(self) -> int:
        """Number of the newest line."""
        return self._tentative.seq

    def since(self, seq: int, start: int, *, early: bool) -> list[Line]:
        """Return the lines with a number above `seq` of intervals from `start` on, in order.

        They are early lines, or else tentative records.
        """
        numbered = (
            (self._tentative.number(record.index), record, rows)
            for record, rows in self._tentative.since(seq)
        )
        found = self._early.since(seq) if early else numbered
        return sorted((each for each in found if each[1].index >= start), key=lambda each: each[0])

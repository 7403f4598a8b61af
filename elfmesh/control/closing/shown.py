"""Lines that are not final, in the order in which followers of a job receive them.

Owns the order of tentative records and early lines, which share one sequence of numbers: a follower names the
last number that it has. Holds no lines.

Invariant: a line of an interval is never sent after the final record of the interval.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.early_lines import EarlyLines, Line
from elfmesh.control.closing.tentative import Tentative


class ShownLines:
    """Lines of one term, or of one site under one grant.

    Args:
        source: names this sequence of numbers; a follower that has a number of another one begins again.
    """

    def __init__(self, tentative: Tentative, early: EarlyLines, source: str = "") -> None:
        self._tentative, self._early, self.source = tentative, early, source

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


class SiteLines:
    """Lines of a site, which has some while it votes.

    Args:
        of_grant: returns the lines under the present grant; None: there is none.
    """

    def __init__(self, of_grant: Callable[[], ShownLines | None]) -> None:
        self._of_grant = of_grant

    @property
    def source(self) -> str:
        lines = self._of_grant()
        return "" if lines is None else lines.source

    @property
    def seq(self) -> int:
        lines = self._of_grant()
        return 0 if lines is None else lines.seq

    def since(self, seq: int, start: int, *, early: bool) -> list[Line]:
        lines = self._of_grant()
        return [] if lines is None else lines.since(seq, start, early=early)

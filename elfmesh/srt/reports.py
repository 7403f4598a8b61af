"""Reports of overlaps at the root, which are collected until the root orders the ranges again.

Owns the reports, and does not send orders. Overlaps come in bursts after a repair, so the root waits a moment
and sends one order, in which adjacent ranges are joined.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.srt.barrier import Barrier
from elfmesh.srt.messages import Refused

RECOLLECT_DELAY_S = 0.2
RANGES_MAX = 1_000
"""Maximum number of collected reports, and of ranges of one order. Further ones are dropped and counted;
agents repeat them."""


class Reports:
    """Reports of overlaps.

    Attributes:
        due: when to order, None = nothing to order.
    """

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._reports: dict[tuple[Refused, bool], None] = {}
        self.due: float | None = None

    def add(self, start: int, stop: int, attempt: int, *, lagging: bool, now: float) -> None:
        if len(self._reports) >= RANGES_MAX:
            self._count("overlaps_dropped")
            return
        self._reports[Refused(start, stop, attempt if lagging else attempt + 1), lagging] = None
        if self.due is None:
            self.due = now + RECOLLECT_DELAY_S

    def take(self, barrier: Barrier) -> tuple[Refused, ...]:
        """Return the ranges to order, without overlaps of attempts that are over already."""
        reports, self._reports = self._reports, {}
        self.due = None
        wanted = {
            each
            for notified, lagging in reports
            for each in barrier.at_least(
                notified.start, notified.stop, notified.attempt, behind_only=not lagging
            )
        }
        ranges: list[Refused] = []
        for each in sorted(wanted, key=lambda each: (each.attempt, each.start, each.stop)):
            last = ranges[-1] if ranges else None
            if last is not None and last.attempt == each.attempt and each.start <= last.stop:
                ranges[-1] = Refused(last.start, max(last.stop, each.stop), last.attempt)
            else:
                ranges.append(each)
        return tuple(ranges[:RANGES_MAX])

"""What the root is told of overlaps, gathered until it orders ranges to be collected again.

Owns the reports; refuses to know how an order travels. Overlaps come in bursts after a repair, so the root
waits a moment and orders once, with ranges that touch joined.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.srt.barrier import Barrier
from elfmesh.srt.messages import Refused

RECOLLECT_DELAY_S = 0.2
RANGES_MAX = 1_000
"""Reports gathered, and ranges of one order; more are dropped and counted, and come again."""


class Reports:
    """See the module's head.

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
        """What to order, leaving out overlaps of attempts that are over already."""
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

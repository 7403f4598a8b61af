"""The event times of one job at one agent: which records have a usable one, and how far they have come.

Owns the newest time and the watermark. Counts nothing.
"""

from __future__ import annotations

from elfmesh.agent.sources import Block
from elfmesh.agent.worker.watermark import Watermark
from elfmesh.control.ql import Window
from elfmesh.control.ql.block import INT64_MAX, INT64_MIN, BlockRows


class EventTimes:
    """The times of one job.

    Args:
        window: of the query; None: everything is one interval.
        lateness_us: see `Watermark`.
        idle_us: see `Watermark`.
        max_future_us: how far a time may be ahead of the clock; None: any.
    """

    def __init__(
        self, window: Window | None, lateness_us: int, idle_us: int, max_future_us: int | None
    ) -> None:
        self._window, self._max_future_us = window, max_future_us
        self.watermark = Watermark(lateness_us, idle_us=idle_us)
        self.newest_us: int | None = None
        """The largest time so far; None before the first."""

    @property
    def newest_index(self) -> int | None:
        """The interval of the largest time so far; None before the first."""
        if self._window is None:
            return 0
        return None if self.newest_us is None else self.newest_us // self._window.slide_us

    def usable(self, records: BlockRows, block: Block, column: str, now_us: int) -> BlockRows:
        """The records of a block that have a time in a column; the watermark learns the largest."""
        most_us = INT64_MAX if self._max_future_us is None else now_us + self._max_future_us
        usable = records.within(column, INT64_MIN, most_us)
        largest = usable.times(column).largest
        if largest is not None:
            self.newest_us = largest if self.newest_us is None else max(self.newest_us, largest)
        self.watermark.fed(block.origin, largest, now_us)
        return usable

"""Event times of one job at one agent: records with a usable time, the newest time, and the watermark."""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.ingest.sources import Block
from elfmesh.ingest.worker.offsets import ReadUpTo
from elfmesh.ingest.worker.watermark import Watermark
from elfmesh.ql import WindowSpec
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows


class EventTimes:
    """Event times of one job.

    Without a `window`, all records are in one interval. A time may be `max_future_us` ahead of the clock
    (None: no limit). After a restart, `newest` is the interval of the largest time read before. See
    `Watermark`.
    """

    def __init__(
        self,
        window: WindowSpec | None,
        lateness_us: int,
        idle_us: int,
        max_future_us: int | None,
        newest: int | None = None,
    ) -> None:
        self._window, self._max_future_us, self._before = window, max_future_us, newest
        self.watermark = Watermark(lateness_us, idle_us=idle_us)
        self.newest_us: int | None = None
        """The largest time so far; None before the first."""

    @property
    def newest_index(self) -> int | None:
        """Return the interval of the largest time so far; None before the first."""
        if self._window is None:
            return 0
        return None if self.newest_us is None else self.newest_us // self._window.slide_us

    @property
    def newest_ever(self) -> int | None:
        """Return the interval of the largest time of all boots, for lines after those of earlier boots."""
        known = [each for each in (self.newest_index, self._before) if each is not None]
        return max(known, default=None)

    def newest_at(self, read_up_to: int | None) -> int | None:
        """Return the interval of a line without a usable time; `read_up_to`: see `JobOffsets`.

        A restart reads input again from the beginning of open intervals, because earlier intervals are
        closed. New input comes after all of it.
        """
        return self.newest_ever if read_up_to is None else self.newest_index

    def resumed(self, read_up_to: Sequence[ReadUpTo]) -> None:
        """Restore the watermark after a restart, from the frames' sealed intervals and files."""
        if self._window is not None and read_up_to:
            index = max(index for _, index in read_up_to) - 1
            reached_us = index * self._window.slide_us + self._window.size_us
            self.watermark.resumed([position.id for position, _ in read_up_to if position.offset], reached_us)

    def usable(self, records: BlockRows, block: Block, column: str, now_us: int) -> BlockRows:
        most_us = INT64_MAX if self._max_future_us is None else now_us + self._max_future_us
        usable = records.within(column, INT64_MIN, most_us)
        largest = usable.times(column).largest
        if largest is not None:
            self.newest_us = largest if self.newest_us is None else max(self.newest_us, largest)
        self.watermark.fed(block.origin, largest, now_us)
        return usable

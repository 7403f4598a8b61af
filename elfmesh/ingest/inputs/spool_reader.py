"""Reader of a spooled stream: the files of its spool, and the losses before spooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.position import Gap
from elfmesh.ingest.sources.reader import BlockDelivery


class SpoolReader(StreamReader):
    """Reader of a spool that reports losses before spooling to the jobs (`notified` of `lost`)."""

    def __init__(
        self, pattern: str, formats: StreamFormat, lost: Callable[[], int], notified: int = 0
    ) -> None:
        super().__init__(pattern, formats)
        self._lost = lost
        self._notified = notified

    def poll(self, bytes_max: int = POLL_BYTES, paused: Sequence[str] = ()) -> list[BlockDelivery]:
        """As for files; losses since the last poll become a gap of every job."""
        lost = self._lost()
        if lost > self._notified:
            why = f"{lost - self._notified} messages were lost before they could be received"
            self.lose(Gap(self.pattern, why))
            self._notified = lost
        return super().poll(bytes_max, paused)

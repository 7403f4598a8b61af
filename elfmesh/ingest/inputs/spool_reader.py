"""Reader of a spooled stream: the files of its spool, and the losses before spooling.

The file that grows is not read to its end while a program's lines wait to be written to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.position import Gap, SourceState
from elfmesh.ingest.sources.reader import BlockDelivery
from elfmesh.ingest.sources.stream_times import StreamTimes


class SpoolReader(StreamReader):
    """Reader of a spool that reports losses before spooling to the jobs (`notified` of `lost`).

    Args:
        path: the file that grows.
        awaited: whether lines wait to be written.
    """

    def __init__(
        self,
        pattern: str,
        formats: StreamFormat,
        lost: Callable[[], int],
        notified: int = 0,
        path: Path | None = None,
        awaited: Callable[[], bool] = lambda: False,
        *,
        times: StreamTimes | None = None,
    ) -> None:
        super().__init__(pattern, formats, times=times)
        self._lost = lost
        self._notified = notified
        self._path, self._awaited = path, awaited
        self._unwritten: int | None = None  # inode of the file for which lines wait; 0: any file

    def poll(self, bytes_max: int = POLL_BYTES, paused: Sequence[str] = ()) -> list[BlockDelivery]:
        """As for files; losses since the last poll become a gap of every job."""
        lost = self._lost()
        if lost > self._notified:
            why = f"{lost - self._notified} messages were lost before they could be received"
            self.lose(Gap(self.pattern, why))
            self._notified = lost
        self._look_ahead()
        return super().poll(bytes_max, paused)

    def look(self) -> None:
        self._look_ahead()
        super().look()

    def sources(self, job: str) -> list[SourceState]:
        return [
            replace(each, at_end=False) if self._unwritten in (0, each.id[1]) else each
            for each in super().sources(job)
        ]

    def _look_ahead(self) -> None:
        """Note whether lines are still to come, before reading, because they may be written meanwhile."""
        self._unwritten = None
        if self._path is not None and self._awaited():
            try:
                self._unwritten = self._path.stat().st_ino
            except OSError:  # between two files
                self._unwritten = 0

"""Known files that are not open, with their metadata of the last look (D-2).

By the metadata such a file is recognised after it was renamed, and a compressed file is known to be complete.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.file import SETTLED_S
from elfmesh.ingest.sources.position import FINISHED, READING, FilePosition, SourceId
from elfmesh.ingest.sources.rotated import RotatedFile
from elfmesh.storage.starving import opened


@dataclass(slots=True)
class KnownFile:
    """File that is not open, with its metadata of the last look."""

    position: FilePosition
    size: int
    mtime_ns: int = -1

    def stored(self) -> FilePosition:
        unfinished = self.position.role == FINISHED and self.size > self.position.offset
        return msgspec.structs.replace(self.position, role=READING) if unfinished else self.position

    def is_still(self, each: RotatedFile) -> bool:
        """Return whether a file is unchanged; for foreign files, raw bytes are compared."""
        place = self.position
        if place.role == FINISHED:
            return contents.holds(each.path, place)
        return each.size >= place.offset and contents.begins_as(each.path, place)


def remembered(each: RotatedFile, role: int, line_bytes_max: int) -> KnownFile | None:
    """Return a file as known without reading it: it is never read (FOREIGN), or only what is added to it.

    Returns None if another file has taken its name.
    """
    fd = opened(each.path, contents.READ_ONLY)
    try:
        place = contents.place_at_end(each.path, fd, role, line_bytes_max)
    finally:
        os.close(fd)
    return KnownFile(place, each.size, each.mtime_ns) if place.id == each.id else None


class Settling:
    """Compressed files that are still being written."""

    def __init__(self) -> None:
        self._sizes: dict[SourceId, tuple[int, float]] = {}

    def is_settled(self, each: RotatedFile, now: float) -> bool:
        """Return whether a compressed file is complete, judged by its not growing for a while."""
        size, since = self._sizes.get(each.id, (-1, 0.0))
        if size != each.size:
            self._sizes[each.id] = (each.size, now)
            return False
        if now - since < SETTLED_S:
            return False
        del self._sizes[each.id]
        return True

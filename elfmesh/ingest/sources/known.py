"""Files that are not open: what the system said of them when they were last looked at (D-2).

Such a file is recognised after it was renamed, and a compressed one when it is complete.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.file import SETTLED_S
from elfmesh.ingest.sources.position import FINISHED, READING, FilePosition, SourceId
from elfmesh.ingest.sources.rotated import Entry
from elfmesh.storage.starving import opened


@dataclass(slots=True)
class Known:
    """A file that is not open, and what the system said of it when it was last looked at."""

    position: FilePosition
    size: int
    mtime_ns: int = -1

    def stored(self) -> FilePosition:
        unfinished = self.position.role == FINISHED and self.size > self.position.offset
        return msgspec.structs.replace(self.position, role=READING) if unfinished else self.position

    def is_still(self, each: Entry) -> bool:
        """Whether a file is what it was; of foreign ones, raw bytes are compared."""
        place = self.position
        if place.role == FINISHED:
            return contents.holds(each.path, place)
        return each.size >= place.offset and contents.begins_as(each.path, place)


def remembered(each: Entry, role: int, line_bytes_max: int) -> Known | None:
    """A file as it is known without being read: not at all (FOREIGN), or only what is added to it.

    Returns None if another file has its name by now.
    """
    fd = opened(each.path, contents.READ_ONLY)
    try:
        place = contents.place_at_end(each.path, fd, role, line_bytes_max)
    finally:
        os.close(fd)
    return Known(place, each.size, each.mtime_ns) if place.id == each.id else None


class Settling:
    """Compressed files that are being written."""

    def __init__(self) -> None:
        self._sizes: dict[SourceId, tuple[int, float]] = {}

    def is_settled(self, each: Entry, now: float) -> bool:
        """Whether a compressed file is complete, as far as not growing for a while can tell."""
        size, since = self._sizes.get(each.id, (-1, 0.0))
        if size != each.size:
            self._sizes[each.id] = (each.size, now)
            return False
        if now - since < SETTLED_S:
            return False
        del self._sizes[each.id]
        return True

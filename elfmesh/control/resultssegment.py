"""One file of a results log: framed records one behind the other.

Owns how a segment is read when its log is opened. Knows nothing of other segments.

Invariant: only the end of the last segment may be torn, and is cut off; damage elsewhere is an error.

Paper: none. See guarantees D-17.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from elfmesh.control.pages import frames
from elfmesh.errors import ProtocolError, StorageError


@dataclass(slots=True)
class Segment:
    """One file: the indices of its records and where each ends."""

    path: Path
    indices: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return self.ends[-1] if self.ends else 0

    def span(self, position: int) -> tuple[int, int]:
        """Offset and length of a record."""
        start = self.ends[position - 1] if position else 0
        return start, self.ends[position] - start


def scan(path: Path, *, cut: bool) -> Segment:
    """The records of a segment; a torn tail is cut off if this is the last segment.

    Raises:
        StorageError: it is damaged, and not to be cut.
    """
    segment, data = Segment(path), path.read_bytes()
    try:
        for record, _, end in frames(data):
            if segment.indices and record.index <= segment.indices[-1]:
                raise ProtocolError(f"interval {record.index} stands behind {segment.indices[-1]}")
            segment.indices.append(record.index)
            segment.ends.append(end)
    except ProtocolError as error:
        if not cut:
            raise StorageError(f"the results log is damaged: {error}", where=str(path)) from None
        with path.open("r+b") as file:
            file.truncate(segment.size)
            os.fsync(file.fileno())
    return segment


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

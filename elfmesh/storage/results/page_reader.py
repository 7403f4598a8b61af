"""Reads a page of records from the segments of a results log, without regard to holes."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Sequence

from elfmesh.errors import ControlFlow
from elfmesh.storage.results.segment import ResultSegment
from elfmesh.storage.starving import opened_file


class ChangedError(ControlFlow):
    """Raised if a file differs from what was written."""


def read_page(
    segments: Sequence[ResultSegment], start: int | None, stop: int | None, limit: int, bytes_max: int
) -> tuple[bytes, int | None, bool]:
    """Return a page of records, the index with which to continue, and whether nothing is left before `stop`.

    Raises:
        ChangedError: a record differs from what was written.
        FileNotFoundError: a segment is missing.
    """
    parts: list[bytes] = []
    size, following = 0, None
    for segment in segments:
        position = 0 if start is None else bisect_left(segment.indices, start)
        if position >= len(segment.indices):
            continue
        with opened_file(segment.path, "rb") as file:
            for place in range(position, len(segment.indices)):
                offset, length = segment.span(place)
                index = segment.indices[place]
                if stop is not None and index >= stop:
                    return b"".join(parts), following, True
                if len(parts) >= limit or (parts and size + length > bytes_max):
                    return b"".join(parts), following, False
                file.seek(offset)
                parts.append(_whole(file.read(length)))
                size += length
                following = index + 1
    return b"".join(parts), following, True


def _whole(frame: bytes) -> bytes:
    if len(frame) < 12 or zlib.crc32(frame[8:]) != int.from_bytes(frame[4:8]):
        raise ChangedError
    return frame

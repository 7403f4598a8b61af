"""Time index of one log and one time column: the least and the greatest event time of each MiB or so.

A reader of a range of times passes over the stretches in which no record can be. Rules:

- Stretches follow each other from the beginning of the file; each ends at the end of a line, and at the end
  of a record that no silence has cut off.
- The first stretch is always read, because the first values of a field decide its type.
- A stretch has the hash of the bytes before its end (`mark_of`), by which a reader recognises the file.
- On disk, each entry has a checksum over itself and all entries before it. What does not fit is cut off.

The index of a file only saves time: what is not in it is read. Does not depend on formats or jobs.
"""

from __future__ import annotations

import logging
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from elfmesh.ingest.sources.position import digest
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, Times
from elfmesh.safeguards import safeguard

log = logging.getLogger("elf.worker")

STRETCH_BYTES = 1 << 20
"""Minimum size of a stretch, except at the end of a file."""

SAMPLES = 32
"""Number of stretches of a file whose marks are compared before they are passed over."""

_MAGIC = b"elf times 1\n"
_ENTRY = struct.Struct("<Qqq8s")
_SUM = struct.Struct("<I")
_SIZE = _ENTRY.size + _SUM.size


class WantedTimes(Struct, frozen=True):
    """Event times that a job takes: [since_us, until_us) of a column; None: no limit."""

    column: str
    since_us: int | None = None
    until_us: int | None = None


class Stretch(Struct, frozen=True):
    """Bytes of a file up to `end`, with the extremes of their event times.

    Without any time, `least_us` is above `greatest_us`.
    """

    end: int
    mark: bytes
    least_us: int = INT64_MAX
    greatest_us: int = INT64_MIN


@safeguard("greatest-time")
def extremes(times: Times) -> tuple[int, int]:
    """Return the least and the greatest time of some rows; without a time, the first one is the greater."""
    if times.least is None or times.largest is None:
        return INT64_MAX, INT64_MIN
    return times.least, times.largest


class TimeIndex:
    """Stretches of one file, in memory and in a file of the data directory. Not thread-safe.

    `about` states what the times were read by; a file that states anything else is not used.

    Cost: 32 bytes of memory and 36 bytes on disk for each stretch.
    """

    def __init__(self, path: Path, about: bytes) -> None:
        self.path = path
        self._head = _MAGIC + digest(about)
        self._sum = zlib.crc32(self._head)
        self._ends, self._least, self._greatest = array("Q"), array("q"), array("q")
        self._marks = bytearray()
        self._writes = True
        self._load()

    @property
    def end(self) -> int:
        """Return the offset up to which the file is described."""
        return self._ends[-1] if self._ends else 0

    @property
    def last_mark(self) -> bytes:
        return bytes(self._marks[-8:])

    def add(self, stretch: Stretch) -> None:
        """Add a stretch behind the others. After a failed write, the index grows in memory only."""
        entry = _ENTRY.pack(stretch.end, stretch.least_us, stretch.greatest_us, stretch.mark)
        is_new = not self._ends
        self._append(stretch)
        self._sum = zlib.crc32(entry, self._sum)
        if not self._writes:
            return
        try:
            with self.path.open("wb" if is_new else "ab") as file:
                file.write((self._head if is_new else b"") + entry + _SUM.pack(self._sum))
        except OSError as error:
            self._writes = False
            log.warning("%s: the time index is not used: %s", self.path, error.strerror or error)

    def over(self, offset: int, wanted: WantedTimes) -> range:
        """Return the numbers of the stretches from `offset` on that have no record in a range."""
        first = stop = bisect_right(self._ends, offset)
        if first:
            while stop < len(self._ends) and not self._may_have(stop, wanted):
                stop += 1
        return range(first, stop)

    def gaps(self, wanted: WantedTimes) -> list[range]:
        """Return the numbers of all consecutive stretches that have no record in a range."""
        found, number = list[range](), 1
        while number < len(self._ends):
            stop = number
            while stop < len(self._ends) and not self._may_have(stop, wanted):
                stop += 1
            if stop > number:
                found.append(range(number, stop))
            number = stop + 1
        return found

    def size_of(self, stretches: range) -> int:
        return self._ends[stretches[-1]] - self._ends[stretches[0] - 1]

    def end_of(self, stretches: range) -> int:
        return self._ends[stretches[-1]]

    def marks(self, stretches: range) -> Iterator[tuple[int, bytes]]:
        """Yield the ends and marks of some of the stretches; the last one is among them."""
        for number in stretches[:: -max(1, len(stretches) // SAMPLES)]:
            yield self._ends[number], bytes(self._marks[8 * number : 8 * number + 8])

    def _may_have(self, number: int, wanted: WantedTimes) -> bool:
        since_us, until_us = wanted.since_us, wanted.until_us
        if since_us is not None and self._greatest[number] < since_us:
            return False
        return until_us is None or self._least[number] < until_us

    def _append(self, stretch: Stretch) -> None:
        self._ends.append(stretch.end)
        self._least.append(stretch.least_us)
        self._greatest.append(stretch.greatest_us)
        self._marks += stretch.mark

    def _load(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            self._writes = False
            log.warning("%s: the time index is not used: %s", self.path, error.strerror or error)
            return
        good = self._take(data)
        if good < len(data):
            log.warning(
                "%s: the time index is damaged from byte %d on, and is used up to there", self.path, good
            )
            self._cut(good)

    def _take(self, data: bytes) -> int:
        """Take the valid entries, and return where they end."""
        at = len(self._head)
        if data[:at] != self._head:
            return 0
        while len(data) - at >= _SIZE:
            entry = data[at : at + _ENTRY.size]
            end, least_us, greatest_us, mark = _ENTRY.unpack(entry)
            found = zlib.crc32(entry, self._sum)
            if _SUM.pack(found) != data[at + _ENTRY.size : at + _SIZE] or not self.end < end <= sys.maxsize:
                break
            self._append(Stretch(end, mark, least_us, greatest_us))
            self._sum, at = found, at + _SIZE
        return at if self._ends else 0

    def _cut(self, size: int) -> None:
        try:
            with self.path.open("r+b") as file:
                file.truncate(size)
        except OSError as error:
            self._writes = False
            log.warning("%s: the time index is not used: %s", self.path, error.strerror or error)

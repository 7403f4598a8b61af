"""Reads a results log that may be damaged: valid records, damaged bytes, and missing indices.

A record names the record before it (`ResultRecord.before`), so that a missing record is detected. Between
records that do not name it, damaged bytes indicate a missing record. Missing records after the last valid
record are not a hole: the log is shorter, and the records that the control register names are fetched again.
See guarantees D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elfmesh.control.jobs.pages import HEAD, frames
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.errors import ProtocolError
from elfmesh.safeguards import safeguard
from elfmesh.storage.results.segment import Meta, ResultSegment, read_meta
from elfmesh.storage.starving import content, listed

Hole = tuple[int, int]
"""Range of missing records: from the first index up to, and not including, the second."""

FIRST_FIELD = b"\xa3job"
"""Start of the header of every record, after the one or three bytes of its map."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a file that are not a record.

    `torn` means an unfinished write: nothing follows, and the bytes never were a complete record.
    """

    path: Path
    offset: int
    size: int
    what: str
    torn: bool = False


@dataclass(slots=True)
class Salvaged:
    """Content of a log's files, in order: segments with valid records, files without, holes, and damage."""

    segments: list[ResultSegment] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)


def record_at(data: bytes, at: int) -> tuple[ResultRecord, int, bytes] | None:
    """Return the record at an offset, the offset after it, and its rows; None if it is not valid."""
    try:
        for record, rows, end in frames(data, at):
            return record, end, rows
    except ProtocolError:
        pass
    return None


def next_good(data: bytes, at: int) -> int:
    """Return the offset of the next valid record after an invalid one, or the length of the data."""
    behind = at + 8 + int.from_bytes(data[at : at + 4])
    if behind < len(data) and record_at(data, behind) is not None:
        return behind  # only the body is damaged
    place = data.find(FIRST_FIELD, at + 1)
    while place >= 0:
        for map_bytes in (1, 3):
            start = place - HEAD.size - map_bytes
            if start > at and record_at(data, start) is not None:
                return start
        place = data.find(FIRST_FIELD, place + 1)
    return len(data)


def _bad(path: Path, data: bytes, at: int, end: int) -> Damage:
    size = end - at
    whole = len(data) - at >= HEAD.size and at + 8 + int.from_bytes(data[at : at + 4]) <= len(data)
    if not data[at:end].strip(b"\0"):
        return Damage(path, at, size, f"{size} bytes are zero", torn=end == len(data))
    if end == len(data) and not whole:
        return Damage(path, at, size, f"{size} bytes are no whole record", torn=True)
    return Damage(path, at, size, f"{size} bytes hold no record with a right checksum")


class _Chain:
    """State of the scan over the valid records of a log."""

    def __init__(self, meta: Meta, found: Salvaged) -> None:
        self._meta, self._found = meta, found
        self.job = meta.job
        self.last: int | None = None
        self.damaged = False

    def refuses(self, record: ResultRecord) -> str:
        if self.job and record.job != self.job:
            return f"a record of another job, {record.job}"
        if self.last is not None and record.index <= self.last:
            return f"interval {record.index} stands behind interval {self.last}"
        return ""

    def follows(self, record: ResultRecord) -> None:
        self.job = self.job or record.job
        low = self._low() if self.last is None else self.last + 1
        if low is not None:
            stop = record.first if record.before is None else record.before + 1
            if stop > low and (self.damaged or record.before is not None):
                self._found.holes.append((low, min(stop, record.index)))
        self.last, self.damaged = record.index, False

    def _low(self) -> int | None:
        return self._meta.begins if self._meta.expired is None else self._meta.expired + 1


def describe_log(directory: Path, damaged: Callable[[Path, int, str], None]) -> tuple[Meta | None, bool]:
    """Return the description of a log, and whether both copies are equal. None if it is unknown.

    If two copies differ, a copy that names another job than the records is not used.
    """
    copies = read_meta(directory, lambda path, why: damaged(path, 0, why))
    paths = segment_paths(directory)
    if not copies:
        return (None if paths else Meta("")), True
    if len(copies) == 2 and copies[0][1] == copies[1][1]:
        return copies[0][1], True
    firsts = (record_at(content(path), 0) for path in paths)
    job = next((good[0].job for good in firsts if good is not None), "")
    fitting = [meta for _, meta in copies if not job or meta.job in ("", job)]
    for path, meta in copies:
        if meta not in fitting:
            damaged(path, 0, f"it describes the log of another job, {meta.job}")
    return (fitting[0] if fitting else None), False


@safeguard("holes")
def salvage(directory: Path, meta: Meta) -> Salvaged:
    """Read all files of a log. Cost: reads them once. Raises OSError if a file cannot be read."""
    found = Salvaged()
    chain = _Chain(meta, found)
    for path in segment_paths(directory):
        data = content(path)
        segment = ResultSegment(path, end=len(data))
        for at, end, record, rows in _stretches(data):
            why = "" if record is None else chain.refuses(record)
            if record is None or why:
                chain.damaged = segment.dirty = True
                bad = Damage(path, at, end - at, why) if why else _bad(path, data, at, end)
                found.damage.append(bad)
            else:
                chain.follows(record)
                segment.add(record, at, end, rows)
        if segment.indices:
            found.segments.append(segment)
        else:
            if not data:
                chain.damaged = True
                found.damage.append(Damage(path, 0, 0, "the file is empty", torn=True))
            found.empty.append(path)
    return found


def segment_paths(directory: Path) -> list[Path]:
    found = []
    for path in listed(directory, "*.seg"):
        try:
            found.append((int(path.stem), path))
        except ValueError:
            continue  # not a segment file
    return [path for _, path in sorted(found, key=lambda each: each[0])]


def _stretches(data: bytes) -> Iterator[tuple[int, int, ResultRecord | None, bytes]]:
    """Yield all ranges of a file in order: valid records with their rows, and the bytes between them."""
    at = 0
    while at < len(data):
        good = record_at(data, at)
        end = next_good(data, at) if good is None else good[1]
        yield (at, end, None, b"") if good is None else (at, end, good[0], good[2])
        at = end

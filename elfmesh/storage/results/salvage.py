"""Reading a results log whose files may be damaged: what is good, what is damaged, and which indices lack.

A record names the record before it (`ResultRecord.before`), so that a missing record is noticed; between
records that do not name it, damaged bytes are the evidence. What is missing behind the last good record is no
hole: the log is shorter, and what the control register says is fetched again. See guarantees D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elfmesh.control.jobs.pages import HEAD, frames
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.errors import ProtocolError
from elfmesh.safeguards import safeguard
from elfmesh.storage.results.segment import Meta, Segment, read_meta
from elfmesh.storage.starving import content, listed

Hole = tuple[int, int]
"""Indices from the first up to and without the second: records lack there."""

FIRST_FIELD = b"\xa3job"
"""What the header of every record begins with, behind its map's one or three bytes."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a file that are no record.

    `torn`: nothing follows, and no whole record ever stood there, so this is an unfinished write.
    """

    path: Path
    offset: int
    size: int
    what: str
    torn: bool = False


@dataclass(slots=True)
class Salvaged:
    """What a log's files hold, in order: segments with good records, files without, holes and damage."""

    segments: list[Segment] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)


def record_at(data: bytes, at: int) -> tuple[ResultRecord, int, bytes] | None:
    """The record at an offset, the offset behind it and its rows; None if there is no good one."""
    try:
        for record, rows, end in frames(data, at):
            return record, end, rows
    except ProtocolError:
        pass
    return None


def next_good(data: bytes, at: int) -> int:
    """The offset of the next good record behind a bad one; the length of the data if there is none."""
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
    """What is wrong with bytes that hold no good record."""
    size = end - at
    whole = len(data) - at >= HEAD.size and at + 8 + int.from_bytes(data[at : at + 4]) <= len(data)
    if not data[at:end].strip(b"\0"):
        return Damage(path, at, size, f"{size} bytes are zero", torn=end == len(data))
    if end == len(data) and not whole:
        return Damage(path, at, size, f"{size} bytes are no whole record", torn=True)
    return Damage(path, at, size, f"{size} bytes hold no record with a right checksum")


class _Chain:
    """Follows the good records of a log from its first to its last."""

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
    """What a log says of itself, and whether both copies say it; None: unknown.

    Of two copies that differ, one that is of another job than the records is not this log's.
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
    """All of a log. Cost: its files are read once. Raises OSError: a file cannot be read."""
    found = Salvaged()
    chain = _Chain(meta, found)
    for path in segment_paths(directory):
        data = content(path)
        segment = Segment(path, end=len(data))
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
            continue  # no file of ours
    return [path for _, path in sorted(found, key=lambda each: each[0])]


def _stretches(data: bytes) -> Iterator[tuple[int, int, ResultRecord | None, bytes]]:
    """All of a file in order: good records with their rows, and what lies between them."""
    at = 0
    while at < len(data):
        good = record_at(data, at)
        end = next_good(data, at) if good is None else good[1]
        yield (at, end, None, b"") if good is None else (at, end, good[0], good[2])
        at = end

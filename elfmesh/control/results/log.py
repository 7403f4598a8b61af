"""The results of one job on disk: an append-only log, readable by interval index.

Owns files only; the records' meaning is the control machine's. Plain and synchronous: one thread uses it.

    DIR/meta               incarnation and unified schema of the rows, replaced atomically
    DIR/<first index>.seg  framed records (see pages.py), indices ascending

Invariants: a record is either whole and checksummed or not there (a torn tail is cut off when the log is
opened); indices only grow, so that appending a record again changes nothing; retention drops whole segments,
oldest first, and never the newest; `append` returns when the record is durable (D-17).
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from elfmesh.control.events import LOG_PAGE_BYTES_MAX, LogRead
from elfmesh.control.results.pages import encode_frame
from elfmesh.control.results.records import ResultRecord, ipc_schema, partials_of
from elfmesh.control.results.segment import (
    Meta,
    Segment,
    cut,
    read_meta,
    scan,
    sync_directory,
    sync_file,
    write_meta,
)
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


INTERVALS_MAX = 10_000
"""Intervals kept per job: a week of minutes."""

BYTES_MAX = 256 << 20
SEGMENT_BYTES = 8 << 20
"""A segment is closed beyond this size; retention works in such steps."""

SEGMENT_RECORDS = 1000


class ResultsLog:
    """The log of one job.

    Args:
        directory: of this job, created if need be.
        incarnation: of the results; a log of another one is dropped. None: whatever is there.
        intervals_max: records kept, roughly (whole segments are dropped).
        bytes_max: bytes kept, likewise.
        segment_bytes: size at which a new segment begins.
        segment_records: number of records at which a new segment begins.

    Raises:
        StorageError: the disk refuses, or a segment is damaged in its middle.
    """

    def __init__(
        self,
        directory: Path,
        incarnation: str | None,
        *,
        intervals_max: int = INTERVALS_MAX,
        bytes_max: int = BYTES_MAX,
        segment_bytes: int = SEGMENT_BYTES,
        segment_records: int = SEGMENT_RECORDS,
    ) -> None:
        self._directory = directory
        self._intervals_max, self._bytes_max = intervals_max, bytes_max
        self._segment_bytes = segment_bytes
        self._segment_records = max(1, min(segment_records, intervals_max // 4 or 1))
        directory.mkdir(parents=True, exist_ok=True)
        self._meta = self._kept = read_meta(directory)
        if incarnation is not None and incarnation != self._meta.incarnation:
            for path in directory.glob("*.seg"):
                path.unlink()
            self._meta = Meta(incarnation)  # kept with the schemas of the first record: two syncs less
        self._segments = self._open_segments()
        self._unsynced = False
        # Whether the directory durably names the last segment.
        self._named = True
        self._learned: dict[str, bytes] = {}

    @property
    def incarnation(self) -> str:
        """Of the results."""
        return self._meta.incarnation

    @property
    def earliest(self) -> int | None:
        """First index held."""
        return self._segments[0].indices[0] if self._segments else None

    @property
    def latest(self) -> int | None:
        """Last index held."""
        return self._segments[-1].indices[-1] if self._segments else None

    def append(self, record: ResultRecord, rows: bytes) -> None:
        """Add a record behind the last one; durable when this returns. Lower indices change nothing."""
        if self.write(record, rows):
            self.sync()

    def learn(self, record: ResultRecord, rows: bytes) -> None:
        """Let the description on disk say what it does when this record is there.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        if self.latest is None or record.index > self.latest:
            self._learn({"schema": rows, "partials": partials_of(rows)})

    def write(self, record: ResultRecord, rows: bytes) -> bool:
        """The same, durable after the next `sync`; returns whether anything has changed.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        if self.latest is not None and record.index <= self.latest:
            return False
        segment = self._segments[-1] if self._segments else None
        full = segment is not None and (
            segment.size >= self._segment_bytes or len(segment.indices) >= self._segment_records
        )
        if segment is None or full:
            self.sync()
            segment = Segment(self._directory / f"{record.index:+020d}.seg")
        self.learn(record, rows)
        frame = encode_frame(record, rows)
        try:
            with segment.path.open("ab") as file:
                file.write(frame)
        except OSError:
            cut(segment.path, segment.size)
            raise
        if not segment.indices:
            self._segments.append(segment)
            self._named = False
        self._unsynced = True
        segment.ends.append(segment.size + len(frame))
        segment.indices.append(record.index)
        self._retain()
        return True

    def distrust(self) -> None:
        """Sync the last segment again: a process that was killed may have written to it and not synced it."""
        if self._segments:
            self._unsynced, self._named = True, False

    def sync(self) -> None:
        """Make everything written durable."""
        if not self._unsynced:
            return
        segment = self._segments[-1]
        with segment.path.open("r+b") as file:
            sync_file(file.fileno(), segment.path)
        if not self._named:
            sync_directory(self._directory)
            self._named = True
        self._unsynced = False

    def read(self, start: int | None, stop: int | None, limit: int) -> tuple[bytes, int | None]:
        """A page of records with start <= index < stop, and the index to go on from (None if empty).

        At most `limit` records and, but for a first large one, LOG_PAGE_BYTES_MAX bytes.
        """
        parts: list[bytes] = []
        size, following = 0, None
        for segment in self._segments:
            position = 0 if start is None else bisect_left(segment.indices, start)
            if position >= len(segment.indices):
                continue
            with segment.path.open("rb") as file:
                for place in range(position, len(segment.indices)):
                    offset, length = segment.span(place)
                    index = segment.indices[place]
                    over = bool(parts) and size + length > LOG_PAGE_BYTES_MAX
                    if len(parts) >= limit or over or (stop is not None and index >= stop):
                        return b"".join(parts), following
                    file.seek(offset)
                    parts.append(file.read(length))
                    size += length
                    following = index + 1
        return b"".join(parts), following

    def describe(self, token: int, page: bytes = b"", following: int | None = None) -> LogRead:
        """The answer to a `ReadLog`."""
        return LogRead(
            token,
            page,
            following,
            self.earliest,
            self.latest,
            self._meta.expired,
            self._meta.schema,
            self._meta.partials,
        )

    # -- files -----------------------------------------------------------------------------------------

    def _write_meta(self, meta: Meta) -> None:
        write_meta(self._directory, meta)
        self._meta = self._kept = meta

    def _open_segments(self) -> list[Segment]:
        paths = sorted(self._directory.glob("*.seg"), key=lambda path: int(path.stem))
        segments: list[Segment] = []
        for path in paths:
            last = path == paths[-1]
            segment = scan(path, cut=last)
            if segment.indices:
                segments.append(segment)
            else:
                path.unlink()
        return segments

    def _learn(self, rows: Mapping[str, bytes]) -> None:
        """Widen the log's schemas by those of these rows: readers know the columns of all of them.

        The description is on disk before the first record is.
        """
        messages = {what: _schema_message(each) for what, each in rows.items() if each}
        meta = self._meta
        for what, message in messages.items():
            if message != self._learned.get(what):
                meta = _widened(meta, what, rows[what])
        if meta != self._kept:
            self._write_meta(meta)
        self._learned |= messages

    def _retain(self) -> None:
        count = sum(len(segment.indices) for segment in self._segments)
        size = sum(segment.size for segment in self._segments)
        while len(self._segments) > 1 and (count > self._intervals_max or size > self._bytes_max):
            oldest = self._segments[0]
            count, size = count - len(oldest.indices), size - oldest.size
            with contextlib.suppress(OSError):  # readers see what is the earliest all the same
                self._write_meta(msgspec.structs.replace(self._meta, expired=oldest.indices[-1]))
            del self._segments[0]
            oldest.path.unlink()


def _widened(meta: Meta, what: str, rows: bytes) -> Meta:
    """The description with one of its schemas widened by that of some rows."""
    new, before = ipc_schema(rows), getattr(meta, what)
    known = pa.ipc.read_schema(pa.py_buffer(before)) if before else None
    try:
        merged = new if known is None else pa.unify_schemas([known, new], promote_options="permissive")
    except pa.ArrowException:
        return meta  # nothing both fit into: readers cast what they get and say what does not fit
    if known is not None and merged.equals(known):
        return meta
    return msgspec.structs.replace(meta, **{what: merged.remove_metadata().serialize().to_pybytes()})


def _schema_message(rows: bytes) -> bytes:
    """What an Arrow IPC stream begins with, unread: where it is equal, so are the schemas."""
    return rows[: 8 + int.from_bytes(rows[4:8], "little")]

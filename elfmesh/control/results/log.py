"""The results of one job on disk: an append-only log, readable by interval index.

Owns files only; the records' meaning is the control machine's. Plain and synchronous: one thread uses it.

    DIR/meta, DIR/meta.copy  incarnation and unified schema of the rows, replaced atomically
    DIR/<first index>.seg    framed records (see pages.py), indices ascending
    DIR/pages/               rows that are too large to stand in a record (see page_files.py)
    DIR/*.damaged            what a damaged file was before it was cut or written anew

Invariants: a record is either whole and checksummed or not there (a torn tail is cut off when the log is
opened); indices only grow, so that appending a record again changes nothing; retention drops whole segments,
oldest first, and never the newest; `append` returns when the record is durable (D-17); what damage took is a
hole, over which no page leads, until it is filled (`mend`); damage is logged as an error with the file's
path.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import msgspec

from elfmesh.control.events import LOG_PAGE_BYTES_MAX, LogRead
from elfmesh.control.results import mend
from elfmesh.control.results.mend import Results
from elfmesh.control.results.page_files import PageFiles
from elfmesh.control.results.pages import encode_frame
from elfmesh.control.results.records import ResultRecord, lost_record
from elfmesh.control.results.reporting import Report
from elfmesh.control.results.row_pages import columns_of
from elfmesh.control.results.salvage import Hole, salvage, segment_paths
from elfmesh.control.results.segment import Meta, Segment, cut, private, sync_directory, sync_file, write_meta
from elfmesh.control.results.widening import schema_message, widened

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

    Attributes:
        holes: where records lack, in order.
        pages: rows that are too large to stand in a record.

    Raises:
        StorageError: the disk refuses.
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
        self._report = Report(directory)
        self.pages = PageFiles(directory)
        self._meta = self._kept = mend.described(directory, self._report.damaged)
        if incarnation is not None and incarnation != self._meta.incarnation:
            self.pages.clear()
            for path in segment_paths(directory):
                path.unlink()
            self._meta = Meta(incarnation)  # kept with the schemas of the first record: two syncs less
        self.holes: list[Hole] = []
        self._segments: list[Segment] = []
        self._empty: list[Path] = []
        self._open_segments()
        needed = {digest for each in self._segments for digest in each.pages}
        self.pages.open(self.latest, needed, self.holes)
        self._unsynced = False
        # Whether the directory durably names the last segment.
        self._named = True
        self._learned: dict[str, bytes] = {}
        self._first = self._meta.first
        if self._first is None and self._meta.expired is None:  # of an earlier release: nothing is gone yet
            self._first = self.earliest

    @property
    def incarnation(self) -> str:
        """Of the results."""
        return self._meta.incarnation

    @property
    def first(self) -> int | None:
        """First index that the job ever had, None if it is not known."""
        return self._first

    @property
    def earliest(self) -> int | None:
        """First index held."""
        return self._segments[0].indices[0] if self._segments else None

    @property
    def latest(self) -> int | None:
        """Last index held, or that was held until it was damaged."""
        ends = [self._segments[-1].indices[-1]] if self._segments else []
        return max((*ends, *(stop - 1 for _, stop in self.holes[-1:])), default=None)

    def append(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Add a record behind the last one; durable when this returns. Lower indices change nothing."""
        if self.write(record, rows, first):
            self.sync()

    def learn(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Let the description on disk say what it does when this record is there.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        if self.latest is None:
            self._first = record.index if first is None else min(first, record.index)
        if self.latest is None or record.index > self.latest:
            self._learn(rows, record)

    def keep_page(self, index: int, data: bytes) -> None:
        """Write a page of the rows of a record that may follow, or again one of a record that is there.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        if self._meta != self._kept:  # pages of another incarnation are not of this log
            self._write_meta(self._meta)
        self.pages.keep(index, data)

    def write(self, record: ResultRecord, rows: bytes, first: int | None = None) -> bool:
        """The same, durable after the next `sync`; returns whether anything has changed.

        `first` is the first record that the job ever had, where the log is a copy that begins later.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        if self.latest is not None and record.index <= self.latest:
            return False
        segment = self._segments[-1] if self._segments else None
        if segment is None or self._is_full(segment):
            self.sync()
            segment = Segment(self._directory / f"{record.index:+020d}.seg")
        self.learn(record, rows, first)
        frame = encode_frame(record, rows)
        try:
            with os.fdopen(private(segment.path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                if os.fstat(file.fileno()).st_size != segment.end:
                    raise _ChangedError
                file.write(frame)
        except _ChangedError:
            self._look_again()
            return self.write(record, rows)
        except OSError:
            cut(segment.path, segment.end)
            raise
        last = self.latest
        if record.before is not None and last is not None and record.before > last:
            self.holes.append((last + 1, record.before + 1))
            self._report.lacking(*self.holes[-1])
        if not segment.indices:
            self._segments.append(segment)
            self._named = False
        self._unsynced = True
        segment.add(record, segment.end, segment.end + len(frame), rows)
        self.pages.passed(record.index, segment.pages)
        self._retain()
        return True

    def _is_full(self, segment: Segment) -> bool:
        return segment.kept >= self._segment_bytes or len(segment.indices) >= self._segment_records

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

    def read(
        self, start: int | None, stop: int | None, limit: int
    ) -> tuple[bytes, int | None, Hole | None, bool]:
        """A page of records with start <= index < stop, and the index to go on from (None if empty).

        At most `limit` records and, but for a first large one, LOG_PAGE_BYTES_MAX bytes. No page leads over a
        hole.

        Returns:
            Beside these two the hole that ends the page, and whether nothing is left before it or `stop`.
        """
        hole = next((each for each in self.holes if start is None or each[1] > start), None)
        if hole is not None and stop is not None and hole[0] >= stop:
            hole = None
        try:
            page, following, ended = self._read(start, stop if hole is None else hole[0], limit)
        except (_ChangedError, FileNotFoundError):
            self._look_again()
            return self.read(start, stop, limit)
        return page, following, hole if ended else None, ended

    def _read(self, start: int | None, stop: int | None, limit: int) -> tuple[bytes, int | None, bool]:
        """A page, the index to go on from, and whether it has all that there is before `stop`."""
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
                    if stop is not None and index >= stop:
                        return b"".join(parts), following, True
                    if len(parts) >= limit or (parts and size + length > LOG_PAGE_BYTES_MAX):
                        return b"".join(parts), following, False
                    file.seek(offset)
                    parts.append(_whole(file.read(length)))
                    size += length
                    following = index + 1
        return b"".join(parts), following, True

    def describe(
        self,
        token: int,
        page: bytes = b"",
        following: int | None = None,
        hole: Hole | None = None,
        ended: bool = False,
    ) -> LogRead:
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
            first=self._first,
            hole=hole,
            ended=ended,
            lost=tuple(each for segment in self._segments for each in segment.lost),
        )

    # -- damage ----------------------------------------------------------------------------------------

    def mend(self, start: int, stop: int, results: Results) -> None:
        """Put records into the hole that begins at `start`, which ends at `stop` then. Durable on return.

        Raises:
            OSError: the disk refuses; the hole may still be there.
        """
        if self.latest is None or self.latest < start:  # what lacks was behind all that is left
            self._report.lacking(start, stop)
            for record, rows in results:
                self.write(record, rows)
            self.sync()
            return
        hole = next((each for each in self.holes if each[0] <= start < each[1]), None)
        if hole is None:
            return
        end = min(stop, hole[1])
        results = mend.of_epoch(
            mend.epoch_before(self._segments, start),
            [each for each in results if hole[0] <= each[0].index < end],
        )
        for record, rows in results:
            self._learn(rows, record)
        left = [(max(each[0], end), each[1]) if each == hole else each for each in self.holes]
        left = [each for each in left if each[0] < each[1]]
        target = mend.place_for(self._directory, self._segments, results, self._is_full)
        self._write_anew(target, results, left)
        self._look_again()

    def give_up(self) -> None:
        """Declare lost what lacks: nobody fetches records into this log. Durable on return."""
        for start, stop in list(self.holes):
            self.mend(start, stop, [(lost_record(self._meta.job, start, stop), b"")])

    def _write_anew(self, target: Segment | None, results: Results, left: Sequence[Hole]) -> None:
        """Write damaged files anew, and the segment that takes more records; `left`: the holes that stay."""
        mend.write_anew(self._segments, target, results, left)
        for path in self._empty:
            mend.keep_beside(path)
            if target is None or path != target.path:
                path.unlink()
        sync_directory(self._directory)
        found = salvage(self._directory, self._meta)
        self._segments, self._empty, self.holes = found.segments, found.empty, found.holes

    def _look_again(self) -> None:
        """The files are not what they were: what is there counts, and what was there is a hole."""
        before = self.latest
        with contextlib.suppress(FileNotFoundError):
            self.sync()
        self._unsynced, self._named = False, True
        self._open_segments()
        last = self.latest
        if before is not None and (last is None or last < before):
            low = self._meta.begins if last is None else last + 1
            self.holes.append((before if low is None else low, before + 1))
            self._report.lacking(*self.holes[-1])

    # -- files -----------------------------------------------------------------------------------------

    def _write_meta(self, meta: Meta) -> None:
        meta = msgspec.structs.replace(meta, seq=self._kept.seq + 1)
        write_meta(self._directory, meta)
        self._meta = self._kept = meta

    def _open_segments(self) -> None:
        found = salvage(self._directory, self._meta)
        mend.cut_end(found)
        for each in found.damage:
            self._report.damaged(each.path, each.offset, each.what, torn=each.torn)
        for low, stop in found.holes:
            self._report.lacking(low, stop)
        self._segments, self._empty, self.holes = found.segments, found.empty, found.holes
        if not self.holes and (self._empty or any(segment.dirty for segment in self._segments)):
            self._write_anew(None, (), ())  # nothing lacks where the damage is

    def _learn(self, data: bytes, record: ResultRecord) -> None:
        """Widen the log's schemas by those of these rows: readers know the columns of all of them.

        The description is on disk before the first record is.
        """
        rows = dict(zip(("schema", "partials"), columns_of(data), strict=True))
        messages = {what: schema_message(each) for what, each in rows.items() if each}
        meta = msgspec.structs.replace(self._meta, first=self._first)
        for what, message in messages.items():
            if message != self._learned.get(what):
                meta = widened(meta, what, rows[what])
        if meta.begins is None:
            meta = msgspec.structs.replace(meta, job=record.job, begins=record.index)
        if meta != self._kept:
            self._write_meta(meta)
        self._learned |= messages

    def _retain(self) -> None:
        count = sum(len(segment.indices) for segment in self._segments)
        size = sum(segment.kept for segment in self._segments)
        while len(self._segments) > 1 and (count > self._intervals_max or size > self._bytes_max):
            oldest = self._segments[0]
            count, size = count - len(oldest.indices), size - oldest.kept
            with contextlib.suppress(OSError):  # readers see what is the earliest all the same
                meta = msgspec.structs.replace(self._meta, expired=oldest.indices[-1], first=self._first)
                self._write_meta(meta)
            self.holes = [each for each in self.holes if each[0] > oldest.indices[-1]]
            del self._segments[0]
            oldest.path.unlink(missing_ok=True)
            if oldest.pages:
                self.pages.expire(oldest.indices[-1])


class _ChangedError(Exception):
    """A file is not what was written."""


def _whole(frame: bytes) -> bytes:
    """A frame whose checksum is right. Raises _ChangedError."""
    if len(frame) < 12 or zlib.crc32(frame[8:]) != int.from_bytes(frame[4:8]):
        raise _ChangedError
    return frame

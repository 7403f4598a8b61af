"""The results of one job on disk: an append-only log, readable by interval index.

    DIR/meta, DIR/meta.copy  incarnation and unified schema of the rows, replaced atomically
    DIR/<first index>.seg    framed records (see pages.py), indices ascending
    DIR/pages/               rows that are too large to stand in a record (see page_files.py)
    DIR/*.damaged            what a damaged file was before it was cut or written again

A record is whole and checksummed, or not there. Indices only grow, so appending a record again changes
nothing. Retention drops whole segments, oldest first, and never the newest. `append` returns when the record
is durable (D-17). What damage took is a hole, over which no page leads, until it is filled (`mend`), and is
logged.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from elfmesh.control.jobs.pages import encode_frame
from elfmesh.control.jobs.records import ResultRecord, lost_record
from elfmesh.control.jobs.row_pages import columns_of
from elfmesh.control.protocol.events import LOG_PAGE_BYTES_MAX, LogRead
from elfmesh.safeguards import safeguard
from elfmesh.storage.results import rewrite as mend
from elfmesh.storage.results.page_files import PageFiles
from elfmesh.storage.results.page_reader import ChangedError, read_page
from elfmesh.storage.results.reporting import Report
from elfmesh.storage.results.rewrite import Results
from elfmesh.storage.results.salvage import Hole, segment_paths
from elfmesh.storage.results.segment import (
    Meta,
    Segment,
    cut,
    private,
    sync_directory,
    sync_file,
    write_meta,
)
from elfmesh.storage.results.segment_files import SegmentFiles
from elfmesh.storage.results.widening import schema_message, widened
from elfmesh.storage.starving import opened

INTERVALS_MAX = 10_000
"""Intervals kept per job: a week of minutes."""

BYTES_MAX = 256 << 20
SEGMENT_BYTES = 8 << 20
"""A segment is closed beyond this size; retention works in such steps."""

SEGMENT_RECORDS = 1000


class ResultsLog:
    """The log of one job.

    Args:
        incarnation: of the results; a log of another one is dropped. None: whatever is there.
        intervals_max: records kept, roughly (whole segments are dropped); `bytes_max` likewise.
        segment_bytes: size at which a new segment begins; `segment_records` likewise.
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
        self._files = SegmentFiles(directory, self._report)
        self._files.open(self._meta)
        needed = {digest for each in self._files.segments for digest in each.pages}
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
        return self._meta.incarnation

    @property
    def first(self) -> int | None:
        """First index that the job ever had, None if it is not known."""
        return self._first

    @property
    def earliest(self) -> int | None:
        return self._files.earliest

    @property
    def latest(self) -> int | None:
        """Last index held, or that was held until it was damaged."""
        return self._files.latest

    @property
    def holes(self) -> list[Hole]:
        return self._files.holes

    def append(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Add a record behind the last one; durable when this returns. Lower indices change nothing."""
        if self.write(record, rows, first):
            self.sync()

    def learn(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Let the description on disk say what it does when this record is there."""
        if self.latest is None:
            self._first = record.index if first is None else min(first, record.index)
        if self.latest is None or record.index > self.latest:
            self._learn(rows, record)

    def keep_page(self, index: int, data: bytes) -> None:
        """Write a page of the rows of a record that may follow, or again one of a record that exists."""
        if self._meta != self._kept:  # pages of another incarnation are not of this log
            self._write_meta(self._meta)
        self.pages.keep(index, data)

    @safeguard("append-once")
    def write(self, record: ResultRecord, rows: bytes, first: int | None = None) -> bool:
        """The same, durable after the next `sync`; whether anything has changed.

        `first` is the first record that the job ever had, where the log is a copy that begins later.
        """
        if self.latest is not None and record.index <= self.latest:
            return False
        segment = self._files.segments[-1] if self._files.segments else None
        if segment is None or self._is_full(segment):
            self.sync()
            segment = Segment(self._directory / f"{record.index:+020d}.seg")
        self.learn(record, rows, first)
        frame = encode_frame(record, rows)
        try:
            with os.fdopen(private(segment.path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                if os.fstat(file.fileno()).st_size != segment.end:
                    raise ChangedError
                file.write(frame)
        except ChangedError:
            self._look_again()
            return self.write(record, rows)
        except OSError:
            cut(segment.path, segment.end)
            raise
        last = self.latest
        if record.before is not None and last is not None and record.before > last:
            self._files.lacks(last + 1, record.before + 1)
        if not segment.indices:
            self._files.segments.append(segment)
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
        if self._files.segments:
            self._unsynced, self._named = True, False

    def sync(self) -> None:
        if not self._unsynced:
            return
        segment = self._files.segments[-1]
        handle = opened(segment.path, os.O_RDWR)
        try:
            sync_file(handle, segment.path)
        finally:
            os.close(handle)
        if not self._named:
            sync_directory(self._directory)
            self._named = True
        self._unsynced = False

    def read(
        self, start: int | None, stop: int | None, limit: int
    ) -> tuple[bytes, int | None, Hole | None, bool]:
        """A page of records with start <= index < stop, and the index to go on from (None if empty).

        At most `limit` records and, but for a first large one, LOG_PAGE_BYTES_MAX bytes. Also returns the
        hole that ends the page, because no page leads over one, and whether nothing is left before it or
        `stop`.
        """
        hole = next((each for each in self.holes if start is None or each[1] > start), None)
        if hole is not None and stop is not None and hole[0] >= stop:
            hole = None
        try:
            page, following, ended = read_page(
                self._files.segments,
                start,
                stop if hole is None else hole[0],
                limit,
                LOG_PAGE_BYTES_MAX,
            )
        except (ChangedError, FileNotFoundError):
            self._look_again()
            return self.read(start, stop, limit)
        return page, following, hole if ended else None, ended

    def describe(
        self,
        token: int,
        page: bytes = b"",
        following: int | None = None,
        hole: Hole | None = None,
        ended: bool = False,
    ) -> LogRead:
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
            lost=tuple(each for segment in self._files.segments for each in segment.lost),
        )

    # -- damage ----------------------------------------------------------------------------------------

    def mend(self, start: int, stop: int, results: Results) -> None:
        """Put records into the hole that begins at `start`, which ends at `stop` then. Durable on return."""
        if self.latest is None or self.latest < start:  # what lacks was behind all that is left
            self._report.lacking(start, stop)
            for record, rows in results:
                self.write(record, rows)
            self.sync()
            return
        fitting = self._files.fitting(start, stop, results)
        if fitting is None:
            return
        for record, rows in fitting:
            self._learn(rows, record)
        self._files.fill(start, stop, fitting, self._is_full, self._meta)
        self._look_again()

    def give_up(self) -> None:
        """Declare lost what lacks: no agent fetches records into this log. Durable on return."""
        for start, stop in list(self.holes):
            self.mend(start, stop, [(lost_record(self._meta.job, start, stop), b"")])

    def _look_again(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.sync()
        self._unsynced, self._named = False, True
        self._files.open_again(self._meta)

    # -- files -----------------------------------------------------------------------------------------

    def _write_meta(self, meta: Meta) -> None:
        meta = msgspec.structs.replace(meta, seq=self._kept.seq + 1)
        write_meta(self._directory, meta)
        self._meta = self._kept = meta

    def _learn(self, data: bytes, record: ResultRecord) -> None:
        """Widen the log's schemas by those of these rows, on disk before the first record is."""
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
        count = sum(len(segment.indices) for segment in self._files.segments)
        size = sum(segment.kept for segment in self._files.segments)
        while len(self._files.segments) > 1 and (count > self._intervals_max or size > self._bytes_max):
            oldest = self._files.segments[0]
            count, size = count - len(oldest.indices), size - oldest.kept
            with contextlib.suppress(OSError):  # readers see what is the earliest all the same
                meta = msgspec.structs.replace(self._meta, expired=oldest.indices[-1], first=self._first)
                self._write_meta(meta)
            self._files.holes = [each for each in self.holes if each[0] > oldest.indices[-1]]
            del self._files.segments[0]
            oldest.path.unlink(missing_ok=True)
            if oldest.pages:
                self.pages.expire(oldest.indices[-1])

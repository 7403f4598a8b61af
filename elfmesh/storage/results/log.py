"""The results of one job on disk: an append-only log that can be read by interval index.

  DIR/meta, DIR/meta.copy  incarnation and unified schema of the rows, replaced atomically
  DIR/<first index>.seg    framed records (see pages.py), indices ascending
  DIR/pages/               rows that are too large for a record (see page_files.py)
  DIR/*.damaged            the content of a damaged file before it was cut or rewritten

A record is complete and checksummed, or absent. Indices only increase, so appending a record again changes
nothing. Retention deletes whole segments, oldest first, and never the newest. `append` returns when the
record is durable (D-17). Damage leaves a hole, which is logged. No page of a read spans a hole until the hole
is filled (`mend`).
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
from elfmesh.storage.results.reporting import LogReport
from elfmesh.storage.results.rewrite import Results
from elfmesh.storage.results.salvage import Hole, segment_paths
from elfmesh.storage.results.segment import (
    Meta,
    ResultSegment,
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
"""Maximum number of intervals per job: a week of minutes."""

BYTES_MAX = 256 << 20
SEGMENT_BYTES = 8 << 20
"""Size beyond which a segment is closed; retention deletes whole segments."""

SEGMENT_RECORDS = 1000


class ResultsLog:
    """The results log of one job.

    Args:
        directory: directory of the log.
        incarnation: incarnation of the results; a log of another one is deleted. None: any incarnation.
        intervals_max: approximate number of kept records (whole segments are deleted).
        bytes_max: approximate size of kept records.
        segment_bytes: size at which a new segment starts.
        segment_records: number of records at which a new segment starts.
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
        self._report = LogReport(directory)
        self.pages = PageFiles(directory)
        self._meta = self._kept = mend.described(directory, self._report.damaged)
        if incarnation is not None and incarnation != self._meta.incarnation:
            self.pages.clear()
            for path in segment_paths(directory):
                path.unlink()
            # written with the schemas of the first record, which saves two syncs
            self._meta = Meta(incarnation)
        self._files = SegmentFiles(directory, self._report)
        self._files.open(self._meta)
        needed = {digest for each in self._files.segments for digest in each.pages}
        self.pages.open(self.latest, needed, self.holes)
        self._unsynced = False
        # whether the name of the last segment is durable
        self._named = True
        self._learned: dict[str, bytes] = {}
        self._first = self._meta.first
        # a log of an earlier release from which nothing was deleted yet
        if self._first is None and self._meta.expired is None:
            self._first = self.earliest

    @property
    def incarnation(self) -> str:
        return self._meta.incarnation

    @property
    def first(self) -> int | None:
        """First index that the job ever had, None if it is unknown."""
        return self._first

    @property
    def earliest(self) -> int | None:
        return self._files.earliest

    @property
    def latest(self) -> int | None:
        """Last index in the log, including an index that was lost by damage."""
        return self._files.latest

    @property
    def holes(self) -> list[Hole]:
        return self._files.holes

    def append(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Append a record durably. A record with an index that is not above the last one changes nothing."""
        if self.write(record, rows, first):
            self.sync()

    def learn(self, record: ResultRecord, rows: bytes, first: int | None = None) -> None:
        """Update the description on disk for a record that is about to be written."""
        if self.latest is None:
            self._first = record.index if first is None else min(first, record.index)
        if self.latest is None or record.index > self.latest:
            self._learn(rows, record)

    def keep_page(self, index: int, data: bytes) -> None:
        """Write a page of rows, for a record that may follow or for one whose page is damaged."""
        if self._meta != self._kept:  # pages of another incarnation do not belong to this log
            self._write_meta(self._meta)
        self.pages.keep(index, data)

    @safeguard("append-once")
    def write(self, record: ResultRecord, rows: bytes, first: int | None = None) -> bool:
        """Append a record that is durable after the next `sync`. Returns whether the log has changed.

        `first` is the first record that the job ever had, if the log is a copy that starts later.
        """
        if self.latest is not None and record.index <= self.latest:
            return False
        segment = self._files.segments[-1] if self._files.segments else None
        if segment is None or self._is_full(segment):
            self.sync()
            segment = ResultSegment(self._directory / f"{record.index:+020d}.seg")
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

    def _is_full(self, segment: ResultSegment) -> bool:
        return segment.kept >= self._segment_bytes or len(segment.indices) >= self._segment_records

    def distrust(self) -> None:
        """Mark the last segment as not synced. A killed process may have written to it without a sync."""
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
        """Return a page of records with start <= index < stop, and the next index (None if empty).

        The page contains at most `limit` records and, except for a large first one, LOG_PAGE_BYTES_MAX bytes.
        Also returns the hole that ends the page, because no page spans a hole, and whether nothing is left
        before it or `stop`.
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
        """Insert records into the hole at `start`, whose filled part ends at `stop`. Durable on return."""
        # the records are missing after all records that are left
        if self.latest is None or self.latest < start:
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
        """Declare missing records lost, in a log into which no agent fetches records. Durable on return."""
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
        """Widen the log's schemas by those of these rows. They are on disk before the record is."""
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
            with contextlib.suppress(OSError):  # readers see the earliest record in any case
                meta = msgspec.structs.replace(self._meta, expired=oldest.indices[-1], first=self._first)
                self._write_meta(meta)
            self._files.holes = [each for each in self.holes if each[0] > oldest.indices[-1]]
            del self._files.segments[0]
            oldest.path.unlink(missing_ok=True)
            if oldest.pages:
                self.pages.expire(oldest.indices[-1])

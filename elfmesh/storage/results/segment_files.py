"""The segments of one results log: opens them, checks them again, and fills holes.

Damage leaves a hole until it is filled. The log, which appends records, reports new segments and holes to
this module. See guarantees D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from elfmesh.storage.results import rewrite
from elfmesh.storage.results.reporting import LogReport
from elfmesh.storage.results.rewrite import Results
from elfmesh.storage.results.salvage import Hole, salvage
from elfmesh.storage.results.segment import Meta, ResultSegment, sync_directory


class SegmentFiles:
    """The segments with valid records and the holes of one log. `report` receives damage."""

    def __init__(self, directory: Path, report: LogReport) -> None:
        self._directory, self._report = directory, report
        self.segments: list[ResultSegment] = []
        self.holes: list[Hole] = []
        self._empty: list[Path] = []

    @property
    def earliest(self) -> int | None:
        return self.segments[0].indices[0] if self.segments else None

    @property
    def latest(self) -> int | None:
        """Last index in the log, including an index that was lost by damage."""
        ends = [self.segments[-1].indices[-1]] if self.segments else []
        return max((*ends, *(stop - 1 for _, stop in self.holes[-1:])), default=None)

    def lacks(self, start: int, stop: int) -> None:
        """Record that records are missing after all other holes."""
        self.holes.append((start, stop))
        self._report.lacking(start, stop)

    def open(self, meta: Meta) -> None:
        """Read the files and report damage. Damage without missing records is cut off or rewritten."""
        found = salvage(self._directory, meta)
        rewrite.cut_end(found)
        for each in found.damage:
            self._report.damaged(each.path, each.offset, each.what, torn=each.torn)
        for low, stop in found.holes:
            self._report.lacking(low, stop)
        self.segments, self._empty, self.holes = found.segments, found.empty, found.holes
        if not self.holes and (self._empty or any(segment.dirty for segment in self.segments)):
            self._rewrite_file(None, (), (), meta)  # no record is missing at the damage

    def open_again(self, meta: Meta) -> None:
        before = self.latest
        self.open(meta)
        last = self.latest
        if before is not None and (last is None or last < before):
            low = meta.begins if last is None else last + 1
            self.lacks(before if low is None else low, before + 1)

    def fitting(self, start: int, stop: int, results: Results) -> Results | None:
        """Return the records that belong into the hole around `start`; None if there is no hole."""
        hole = self._hole_at(start)
        if hole is None:
            return None
        end = min(stop, hole[1])
        return rewrite.of_epoch(
            rewrite.epoch_before(self.segments, start),
            [each for each in results if hole[0] <= each[0].index < end],
        )

    def fill(
        self, start: int, stop: int, results: Results, is_full: Callable[[ResultSegment], bool], meta: Meta
    ) -> None:
        """Insert `results` into the hole around `start`, filled up to `stop`. Durable on return."""
        hole = self._hole_at(start)
        assert hole is not None, "records fit into a hole"
        end = min(stop, hole[1])
        left = [(max(each[0], end), each[1]) if each == hole else each for each in self.holes]
        left = [each for each in left if each[0] < each[1]]
        target = rewrite.place_for(self._directory, self.segments, results, is_full)
        self._rewrite_file(target, results, left, meta)

    def _hole_at(self, index: int) -> Hole | None:
        return next((each for each in self.holes if each[0] <= index < each[1]), None)

    def _rewrite_file(
        self, target: ResultSegment | None, results: Results, left: Sequence[Hole], meta: Meta
    ) -> None:
        rewrite.rewrite_file(self.segments, target, results, left)
        for path in self._empty:
            rewrite.keep_beside(path)
            if target is None or path != target.path:
                path.unlink()
        sync_directory(self._directory)
        found = salvage(self._directory, meta)
        self.segments, self._empty, self.holes = found.segments, found.empty, found.holes

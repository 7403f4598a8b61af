"""Late records of intervals that are sealed here and not closed yet, and the revisions from them (D-12).

A revision is the whole contribution: the previous one merged with the late records, evaluated by the version
of the interval. A record is in the panes until it is in a revision or its counts are returned. There is no
state of intervals below the floor, nor of more than `INTERVALS_MAX` intervals. Used by one thread at a time,
except `close_below`.

Paper: none; ELF drops late records. Deviation: partial aggregates are merged; sealed panes are not kept open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field
from sortedcontainers import SortedDict

from elfmesh.cbt import Encode, Panes, PartialTooLarge, TypeConflict, encode_parts, merge_partials
from elfmesh.cbt.budget import Budget
from elfmesh.control.jobs.records import (
    BROKEN,
    CONTRIBUTED,
    FILTERED,
    FIRST,
    FUNCTION_ERROR,
    LATE,
    NOT_COUNTED,
    PARSE_ERROR,
    add_counts,
)
from elfmesh.errors import DataError, QueryError
from elfmesh.ingest.worker.insertion import insert
from elfmesh.ingest.worker.intervals import WorkerInterval
from elfmesh.ql import Query
from elfmesh.ql.engine.assumed import OpenAssumptions
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows
from elfmesh.ql.values.growth import TooLarge
from elfmesh.safeguards import safeguard

INTERVALS_MAX = 64
"""Maximum number of intervals with late records, so that records from random past times cannot revise
more."""

PACE_US = 250_000
"""Minimum time between two revisions, so that late records that arrive together are one revision."""


Lost: TypeAlias = tuple[int, tuple[int, ...]]
"""An interval, and the counts of its late records that no revision contains."""


class Revision(Struct, frozen=True):
    """Contribution of one interval, with its late records.

    `rev` is at least 2. `added` has the counts of the records since the previous revision; `evaluated` is the
    version by which the interval is evaluated.
    """

    interval: int
    rev: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]
    added: tuple[int, ...]
    evaluated: int


class Evaluation(Struct, frozen=True):
    """Evaluation of the intervals from `start` up to the next evaluation; see `terms.Stage.evaluated`.

    Records before `since_us` are filtered (`Manifest.since_us`); None: none are.
    """

    start: int
    query: Query
    version: int = 1
    since_us: int | None = None


class _Late(Struct):
    """Late records of one interval that are in no revision yet."""

    panes: Panes
    assumed: OpenAssumptions
    counts: list[int] = field(default_factory=lambda: list(NOT_COUNTED))


class Fed(Struct):
    """Outcome of feeding some late records.

    Attributes:
        contributed: records that are in the panes now; one that is in several intervals counts once.
        left_out: the other records, by bucket and interval.
        lowest: records in the panes of the lowest interval, by their first interval.
    """

    contributed: int = 0
    left_out: dict[tuple[int, int], int] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)

    def leave_out(self, bucket: int, index: int, number: int) -> None:
        self.left_out[bucket, index] = self.left_out.get((bucket, index), 0) + number


class LateRecords:
    """Late records of one job; intervals below `floor` are not revised.

    `evaluations` are those of the job's versions, oldest first. Intervals below `closed` are closed, or
    belong to another agent. `broken` counts violations of ASSUME in revisions.
    """

    @safeguard("late-by-version")
    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        *,
        budget: Budget | None = None,
        seed: int = 0,
        encode: Encode = encode_parts,
        floor: int = FIRST,
    ) -> None:
        self._evaluations = tuple(evaluations)
        job = self._evaluations[0].query.statement.job
        self._partitions = job.partitions if job else 1
        self._budget, self._seed, self._encode = budget, seed, encode
        self.floor = self._next_floor = floor
        self.closed = FIRST
        self._sealed: SortedDict[int, tuple[int, WorkerInterval | None]] = SortedDict()
        self._late: SortedDict[int, _Late] = SortedDict()
        self._revised_us = self.broken = 0
        self._next_closed = FIRST

    @property
    def nbytes(self) -> int:
        return sum(late.panes.nbytes + late.assumed.nbytes for late in self._late.values())

    def close_below(self, floor: int) -> None:
        """Note that intervals below are closed; the next `drop` ends their revision. Thread-safe."""
        self._next_floor = max(self._next_floor, floor)
        self._next_closed = max(self._next_closed, floor)

    def revise_from(self, first: int) -> None:
        """End revisions below `first` at the next `drop`, because their records cannot be reported."""
        self._next_floor = max(self._next_floor, first)

    def drop(self) -> list[Lost]:
        """Remove closed intervals; returns the counts of late records that no revision contains."""
        self.floor, self.closed = self._next_floor, self._next_closed
        lost = []
        while self._late and self._late.keys()[0] < self.floor:
            index, late = self._late.popitem(0)
            late.panes.drop_below(1)
            lost.append((index, tuple(late.counts)))
        while self._sealed and self._sealed.keys()[0] < self.floor:
            self._sealed.popitem(0)
        return lost

    def sealed(self, entry: WorkerInterval, rev: int = 1) -> None:
        """Store the newest contribution of an interval."""
        if entry.index >= self.floor:
            self._sealed[entry.index] = (rev, entry)

    def used(self, index: int, rev: int) -> None:
        """Note that another report used revisions of an interval up to this one.

        Later revisions are higher.
        """
        if index >= self.floor:
            self._sealed[index] = (rev, None)

    def first_rev(self, index: int) -> int:
        return int(self._sealed[index][0]) + 1 if index in self._sealed else 1

    @property
    def revs_used(self) -> Mapping[int, int]:
        """Return, for intervals without a stored contribution, the last revision that was used."""
        return {index: rev for index, (rev, entry) in self._sealed.items() if entry is None}

    def feed(
        self,
        records: BlockRows,
        origin: tuple[str, str | None],
        lowest: int,
        stop: int,
        note: Callable[[str], None],
    ) -> Fed:
        """Take records, with a time each, for the sealed intervals [lowest, stop) that are not closed.

        `origin` is their column of times, and the stream they are from if there are several; `note` receives
        a reason when a record is dropped.
        """
        fed = Fed()
        ends = [*(each.start for each in self._evaluations[1:]), stop]
        begin = lowest
        for by, following in zip(self._evaluations, ends, strict=True):
            end = min(following, stop)
            if begin < end:
                self._feed_range(by, records, origin, begin, end, fed, note, lowest)
                begin = end
        return fed

    def _feed_range(
        self,
        by: Evaluation,
        records: BlockRows,
        origin: tuple[str, str | None],
        start: int,
        stop: int,
        fed: Fed,
        note: Callable[[str], None],
        lowest: int,
    ) -> None:
        column, window = origin[0], by.query.statement.window
        assert window is not None, "only a query with a window has late records"
        slide_us, size_us = window.slide_us, window.size_us
        span = records.within(column, start * slide_us, (stop - 1) * slide_us + size_us - 1)
        if not span.rows:
            return
        last = np.unique(span.times(column).values // slide_us)
        windows = {int(index) - back for index in last for back in range(-(-size_us // slide_us))}
        for index in sorted(index for index in windows if start <= index < stop):
            begin, end = index * slide_us, (index + 1) * slide_us
            newest = span.within(column, begin, end - 1)
            self._feed(by, index, newest, origin, fed, note, whole=True, is_lowest=index == lowest)
            if size_us > slide_us:
                older = span.within(column, end, begin + size_us - 1)
                self._feed(by, index, older, origin, fed, note, whole=False, is_lowest=index == lowest)

    def _feed(
        self,
        by: Evaluation,
        index: int,
        rows: BlockRows,
        origin: tuple[str, str | None],
        fed: Fed,
        note: Callable[[str], None],
        *,
        whole: bool,
        is_lowest: bool,
    ) -> None:
        if not rows.rows:
            return
        column, stream = origin
        if index < self.floor or (index not in self._late and len(self._late) >= INTERVALS_MAX):
            fed.leave_out(LATE, index, rows.rows)
            return
        try:
            taken = self._insert(by, index, rows, column, stream, note, whole=whole)
        except TooLarge as error:
            if rows.rows > 1:
                for half in rows.halves():
                    self._feed(by, index, half, origin, fed, note, whole=whole, is_lowest=is_lowest)
                return
            note(str(error))
            fed.leave_out(PARSE_ERROR, index, rows.rows if whole else 0)
            return
        except (DataError, QueryError) as error:
            note(str(error))
            fed.leave_out(PARSE_ERROR, index, rows.rows if whole else 0)
            return
        fed.contributed += sum(taken.values()) if whole else 0
        if is_lowest:
            window = by.query.statement.window
            assert window is not None
            for pane, number in taken.items():
                first = (pane * window.pane_us - window.size_us) // window.slide_us + 1
                fed.lowest[first] = fed.lowest.get(first, 0) + number

    def _insert(
        self,
        by: Evaluation,
        index: int,
        records: BlockRows,
        column: str,
        stream: str | None,
        note: Callable[[str], None],
        *,
        whole: bool,
    ) -> dict[int, int]:
        """Insert records; returns how many were contributed, by pane of the query's window.

        Nothing is contributed if the call raises.
        """
        late, checker = self._late.get(index), by.query.assumptions
        if late is None:
            tables = by.query.statement.tables
            panes = Panes(tables, 1, 1, budget=self._budget, seed=self._seed)
            late = _Late(panes, OpenAssumptions(len(checker.dependencies)))
        erased = 0
        if by.since_us is not None:
            erased = records.within(column, INT64_MIN, by.since_us - 1).rows
            records = records.within(column, by.since_us, INT64_MAX)
        checked = checker.check(records)
        prepared, refused = insert(by.query, late.panes, records, note, stream, pane=0)
        if checked is not None:
            late.assumed.add(checked, None, note)
        self._late[index] = late
        late.counts[FILTERED] += erased
        late.counts[CONTRIBUTED] += sum(prepared.kept.values())
        late.counts[FILTERED] += sum(prepared.filtered.values())
        late.counts[PARSE_ERROR] += refused if whole else 0
        late.counts[FUNCTION_ERROR] += prepared.failed if whole else 0
        return dict(prepared.kept)

    @property
    def is_pending(self) -> bool:
        """Return whether there is something to revise."""
        return bool(self._late)

    def is_due(self, now_us: int) -> bool:
        """Return whether there is something to revise and the last revision is old enough."""
        return self.is_pending and abs(now_us - self._revised_us) >= PACE_US

    def take(self, now_us: int, room: int, note: Callable[[str], None]) -> tuple[list[Revision], list[Lost]]:
        """Revise all intervals with late records, oldest first, within `room` bytes.

        Returns the revisions, and the counts of the records for which there is no room.
        """
        self._revised_us = now_us
        found: list[Revision] = []
        lost: list[Lost] = []
        while self._late:
            index, late = self._late.popitem(0)
            if not any(late.counts):
                continue
            if broken := late.assumed.broken((0,)):
                note(f"late for interval {index}: violations of ASSUME: {broken}")
                late.counts.append(broken)
            rev, known = self._sealed.get(index, (1, None))
            before = _nothing(index, self._partitions) if known is None else known
            payloads = self._merged(index, late, before, note)
            late.panes.drop_below(1)
            size = 0 if payloads is None else sum(map(len, payloads))
            if payloads is None or size > room:
                lost.append((index, tuple(late.counts)))
                continue
            room -= size
            added = tuple(late.counts)
            revised = WorkerInterval(index, add_counts((before.counts, added)), tuple(payloads))
            self.sealed(revised, rev + 1)
            evaluated = self._by(index).version
            self.broken += sum(added[BROKEN:])
            found.append(Revision(index, rev + 1, revised.counts, revised.payloads, added, evaluated))
        return found, lost

    def _by(self, index: int) -> Evaluation:
        begun = (each for each in reversed(self._evaluations) if each.start <= index)
        return next(begun, self._evaluations[0])

    def _merged(
        self, index: int, late: _Late, before: WorkerInterval, note: Callable[[str], None]
    ) -> Sequence[bytes] | None:
        """Return the payloads with the late records; None if too large. Records of other types are errors."""
        try:
            tables = late.panes.window(0)
            more = self._encode(tables, self._partitions) if tables is not None else ()
            if not any(more):
                return before.payloads
            pairs = zip(before.payloads, more, strict=True)
            return [merge_partials([part for part in pair if part]) for pair in pairs]
        except PartialTooLarge as error:
            note(f"late for interval {index}: {error}")
            return None
        except TypeConflict as error:
            note(f"late for interval {index}: {error}")
            late.counts[PARSE_ERROR] += late.counts[CONTRIBUTED]
            late.counts[CONTRIBUTED] = 0
            return before.payloads


def _nothing(index: int, partitions: int) -> WorkerInterval:
    return WorkerInterval(index, NOT_COUNTED, (b"",) * partitions)

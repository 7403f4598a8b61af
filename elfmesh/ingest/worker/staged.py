"""Job at one agent during a change of its version: one worker per version and its intervals (D-16).

Every record is fed to all workers and is in exactly one bucket per interval (D-1). A record of no interval is
counted by the worker of the open interval. If versions differ in their time column, a record is read again as
long as its interval by any of these columns is open. A late record for an interval of an earlier version
revises it by that version if both have the same time columns; otherwise it is `late_dropped`. A job with a
single version has no overhead.

Paper: ELF 3 (job functions updated at run time).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from elfmesh import ql
from elfmesh.cbt import PartialTooLarge
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED, OVERFLOW, add_counts
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources import Block, FileKey, FilePosition, Gap, SourceState
from elfmesh.ingest.worker.beginning import Resumed, SharedWorkerState
from elfmesh.ingest.worker.early import EarlyStates
from elfmesh.ingest.worker.late import Evaluation, LateRecords, Revision
from elfmesh.ingest.worker.offsets import JobOffsets, ReadUpTo, Stretch
from elfmesh.ingest.worker.stage_worker import StageWorker
from elfmesh.ingest.worker.tally import Carried
from elfmesh.ingest.worker.watermark import Watermark
from elfmesh.ingest.worker.worker import MAX_FUTURE_US
from elfmesh.ql.engine.block import INT64_MIN, BlockRows


def _late_records(
    stages: Sequence[Stage],
    statements: Sequence[ql.Statement],
    start_index: int,
    resumed: Resumed,
    around: SharedWorkerState,
) -> LateRecords | None:
    """Return the store for late records of a job; None if its records are never late."""
    if any(statement.window is None for statement in statements):
        return None
    evaluations = [
        Evaluation(
            stage.start,
            ql.Query(
                statement,
                around.labels,
                around.lookup,
                around.functions.get(stage.evaluated),
                around.member,
            ),
            stage.evaluated,
            stage.manifest.since_us,
        )
        for stage, statement in zip(stages, statements, strict=True)
    ]
    late = LateRecords(
        evaluations, budget=around.budget, seed=around.seed, encode=around.encode, floor=start_index
    )
    late.close_below(start_index)
    late.revise_from(stages[0].start)
    late.drop()
    for index, rev in resumed.revs:
        late.used(index, rev)
    return late


def _alike_from(stages: Sequence[Stage], statements: Sequence[ql.Statement]) -> list[int]:
    found: list[int] = []
    before: list[str] = []
    for stage, statement in zip(stages, statements, strict=True):
        dated = [] if statement.window is None else [statement.time_of(name) for name in statement.streams]
        found.append(found[-1] if found and dated == before else stage.start)
        before = dated
    return found


ENDED_MAX = 256
"""Maximum number of intervals with records that are sealed at once because the logs have ended, so that the
frames stay small: a record may be in hundreds of open windows."""


class StagedWorker:
    """Workers of one job at one agent, oldest version first."""

    def __init__(
        self, stages: Sequence[Stage], *, start_index: int, resumed: Resumed, around: SharedWorkerState
    ) -> None:
        ends: list[int | None] = [*(stage.start for stage in stages[1:]), None]
        statements = [ql.parse(stage.manifest.text) for stage in stages]
        self.late = _late_records(stages, statements, start_index, resumed, around)
        self._parts: list[StageWorker] = []
        for stage, end, alike_from in zip(stages, ends, _alike_from(stages, statements), strict=True):
            if end is None or end > max(resumed.next, start_index):
                self._parts.append(
                    StageWorker(
                        stage,
                        end,
                        heir=bool(self._parts),
                        start_index=start_index,
                        resumed=resumed,
                        around=around,
                        late=self.late,
                        alike_from=alike_from,
                    )
                )
        self._done = NOT_COUNTED
        self._dating = [statement for statement in statements if statement.window is not None]
        self._stream, self._places = around.stream, JobOffsets()
        self._turns = resumed.turns

    @property
    def head(self) -> StageWorker:
        return self._parts[0]

    def advance(self) -> bool:
        """Return whether the first open interval has passed to the next version."""
        head = self.head
        if head.stop is None or head.next_index < head.stop:
            return False
        self._done = add_counts((self._done, head.totals))
        del self._parts[0]
        self.head.inherit()
        return True

    @property
    def next_index(self) -> int:
        return self.head.next_index

    @property
    def totals(self) -> tuple[int, ...]:
        late = () if self.late is None else (*NOT_COUNTED, self.late.broken)
        return add_counts((self._done, *(part.totals for part in self._parts), late))

    def ends_at(self, stop: int) -> int:
        """Let the next call of `seal` seal everything that was read, and what is below `stop`.

        Returns one past the last interval to be sealed. If more than `ENDED_MAX` intervals have records, the
        next call seals the first ones only.
        """
        end = max(part.end_index for part in self._parts)
        target = max(self.next_index, stop, FIRST if end <= FIRST + 1 else end)
        occupied = self.head.tally.occupied(self.next_index, target)
        for part in self._parts:
            part.ends_at = occupied[ENDED_MAX] if len(occupied) > ENDED_MAX else target
        return target

    @property
    def nbytes(self) -> int:
        """Return the bytes of the open intervals. Only in the evaluating thread."""
        return sum(part.nbytes for part in self._parts)

    @property
    def groups(self) -> int:
        return sum(part.groups for part in self._parts)

    @property
    def watermark_us(self) -> int:
        return self.head.watermark_us

    @property
    def watermarks(self) -> tuple[Watermark, ...]:
        return tuple(part.times.watermark for part in self._parts)

    @property
    def samples(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(part.problems.samples for part in self._parts)))

    def feed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        self._keep_place(block, now_us, records)
        for part in self._parts:
            part.feed(parsed, block, now_us, records)

    def shed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        """Drop a block because there is no room for it."""
        self._keep_place(block, now_us, records)
        for part in self._parts:
            part.shed(parsed, block, now_us, records)

    def lost(self, gaps: Sequence[Gap]) -> None:
        for part in self._parts:
            part.lost(gaps)

    def observe(
        self, sources: Iterable[SourceState], now_us: int, agreed_us: int | None, latest_us: int | None
    ) -> None:
        present = tuple(sources)
        for part in self._parts:
            part.observe(present, now_us, agreed_us, latest_us)

    def pause(self, now_us: int) -> None:
        for part in self._parts:
            part.pause(now_us)

    def resume(self, now_us: int) -> None:
        for part in self._parts:
            part.resume(now_us)

    @property
    def newest(self) -> int | None:
        """Return the interval of the newest record that was read, in this boot or an earlier one."""
        return self.head.times.newest_ever

    @property
    def carried(self) -> tuple[Carried, ...]:
        """Return the counts that a replay does not repeat and that are not sealed yet."""
        return tuple(each for part in self._parts for each in part.tally.carried)

    @property
    def revs_used(self) -> tuple[tuple[int, int], ...]:
        """Return the revisions that other versions have used of intervals without a valid contribution."""
        return () if self.late is None else tuple(sorted(self.late.revs_used.items()))

    def close_below(self, floor: int) -> None:
        """Note that intervals below are closed and are not revised from now on. Thread-safe."""
        if self.late is not None:
            self.late.close_below(floor)

    def take_early(self, members: int) -> list[tuple[int, EarlyStates]]:
        """Return the states of open windows for the master, each with the version that has evaluated it."""
        return [(part.evaluated, each) for part in self._parts for each in part.take_early(members)]

    def cut(self, *, whole: bool) -> tuple[bool, list[CutPane]]:
        """Return what was read since the last call, or all open panes; the first says which.

        Raises PartialTooLarge; then the next call returns all.
        """
        tails = [part.tail for part in self._parts if part.tail is not None]
        whole = whole or len(tails) < len(self._parts) or not all(tail.settle() for tail in tails)
        try:
            if whole:
                return True, [each for part in self._parts for each in part.cut_whole()]
            return False, [each for tail in tails for each in tail.take()]
        except PartialTooLarge:
            self.cut_no_more()
            raise

    @property
    def has_uncut(self) -> bool:
        """Return whether records were read that no call of `cut` has returned."""
        return any(part.tail is not None and part.tail.has_records for part in self._parts)

    def cut_no_more(self) -> None:
        """Keep no tails, because nothing is shipped."""
        for part in self._parts:
            part.tail = None

    @property
    def newest_us(self) -> int:
        """Return the newest event time that was read in this boot; 0 before the first."""
        return max((part.times.newest_us or 0 for part in self._parts), default=0)

    def drop_closed(self) -> None:
        """Count late records that are in no revision as late, if their intervals are closed."""
        self.head.drop_closed()

    def revise(self, now_us: int, room: int) -> list[Revision]:
        """Return the revisions of all intervals with late records.

        Those beyond `room` bytes are counted as overflow.
        """
        head = self.head
        revisions, lost = head.take_late(now_us, room)
        is_done = head.stop is not None and head.next_index >= head.stop
        (self._parts[1] if is_done else head).give_up(lost, OVERFLOW)
        return revisions

    @property
    def shed_stretches(self) -> tuple[Stretch, ...]:
        return tuple(dict.fromkeys(each for part in self._parts for each in part.offsets.shed()))

    def positions(self) -> tuple[FilePosition, ...]:
        """Return the restart positions from which every open pane of every version can be filled again."""
        self._places.close_below(self.next_index)
        earliest: dict[FileKey, FilePosition] = {}
        needed = (self._places.restart(), *(part.offsets.restart() for part in self._parts))
        for position in chain.from_iterable(needed):
            if position.key not in earliest or position.offset < earliest[position.key].offset:
                earliest[position.key] = position
        return tuple(earliest.values())

    @property
    def edges(self) -> tuple[FilePosition, ...]:
        edges = (edge for part in self._parts for edge in part.offsets.edges())
        return tuple(dict.fromkeys((*edges, *self._turns)))

    def turns(self, start: int) -> tuple[FilePosition, ...]:
        """Return the positions at which the intervals after `start` have begun, before they are sealed.

        Errors have no time and belong to the newest interval when they are read. If part of a sealed range is
        annulled, a replay with a block across these positions would count its errors in another interval.
        """
        window = self.head.statement.window
        slide = 1 if window is None else window.slide_us // window.pane_us
        begun = self.head.offsets.begun_from((start + 1) * slide)
        return tuple(dict.fromkeys((*self._turns, *begun)))

    @property
    def read_up_to(self) -> tuple[ReadUpTo, ...]:
        """Return what earlier boots have counted beyond this boot's positions."""
        return self.head.offsets.read_up_to()

    def read_positions(self) -> tuple[FilePosition, ...]:
        return self.head.offsets.reached()

    def _keep_place(self, block: Block, now_us: int, records: BlockRows) -> None:
        """Store the block's position for the intervals of each version, if time columns differ.

        A version's worker may have ended or may take only its own intervals, and a version that dates no
        record has no pane to store a position for. Cost: one conversion per block and column, if there are
        several.
        """
        columns = {each.time_of(block.stream or self._stream) for each in self._dating}
        if len(columns) < 2:
            return
        window = self.head.statement.window
        assert window is not None, "versions of one job have windows at the same distance"
        for column in sorted(columns):
            largest = records.within(column, INT64_MIN, now_us + MAX_FUTURE_US).times(column).largest
            if largest is not None:
                self._places.begin(largest // window.slide_us, block)

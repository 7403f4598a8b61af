"""One job at one agent while its version changes: a worker for each version and its own intervals (D-16).

Every record is fed to all workers and is in exactly one bucket per interval (D-1). What belongs to no
interval is counted by the worker of the interval that is open. Where versions differ in their column of time,
a record is read again as long as its interval by any of them is open. What comes late for an interval of an
earlier version revises it by that version if both have the same columns of time; otherwise it is
`late_dropped`. A single version is its worker and costs nothing.

Paper: ELF 3 (job functions updated at run time).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from elfmesh import ql
from elfmesh.control.jobs.records import BUCKETS, OVERFLOW
from elfmesh.control.jobs.terms import Stage
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources import Block, FileKey, FilePosition, Gap, SourceState
from elfmesh.ingest.worker.beginning import Resumed, Surroundings
from elfmesh.ingest.worker.late import Evaluation, LateRecords, Revision
from elfmesh.ingest.worker.offsets import Offsets, ReadUpTo, Stretch
from elfmesh.ingest.worker.stage_worker import StageWorker
from elfmesh.ingest.worker.tally import Carried
from elfmesh.ingest.worker.worker import MAX_FUTURE_US
from elfmesh.ql.engine.block import INT64_MIN, BlockRows


def _late_records(
    stages: Sequence[Stage],
    statements: Sequence[ql.Statement],
    start_index: int,
    resumed: Resumed,
    around: Surroundings,
) -> LateRecords | None:
    """What takes the late records of a job; None where nothing is ever late."""
    if any(statement.window is None for statement in statements):
        return None
    evaluations = [
        Evaluation(
            stage.start,
            ql.Query(statement, around.labels, around.lookup, around.functions.get(stage.evaluated)),
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


class StagedWorker:
    """The workers of one job at one agent, oldest version first."""

    def __init__(
        self, stages: Sequence[Stage], *, start_index: int, resumed: Resumed, around: Surroundings
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
        self._done = [0] * len(BUCKETS)
        self._dating = [statement for statement in statements if statement.window is not None]
        self._stream, self._places = around.stream, Offsets()
        self._turns = resumed.turns

    @property
    def head(self) -> StageWorker:
        return self._parts[0]

    def advance(self) -> bool:
        """Whether the next version has the first open interval now, where it had not before."""
        head = self.head
        if head.stop is None or head.next_index < head.stop:
            return False
        self._done = [sum(pair) for pair in zip(self._done, head.totals, strict=True)]
        del self._parts[0]
        self.head.inherit()
        return True

    @property
    def next_index(self) -> int:
        return self.head.next_index

    @property
    def totals(self) -> list[int]:
        """Records per bucket since the workers began."""
        return [sum(each) for each in zip(self._done, *(part.totals for part in self._parts), strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of the open intervals. Only where they are filled."""
        return sum(part.nbytes for part in self._parts)

    @property
    def groups(self) -> int:
        """PAO rows of the open intervals."""
        return sum(part.groups for part in self._parts)

    @property
    def watermark_us(self) -> int:
        """Event time below which this agent expects nothing more."""
        return self.head.watermark_us

    @property
    def samples(self) -> tuple[str, ...]:
        """Reasons why lines or values were not usable."""
        return tuple(dict.fromkeys(chain.from_iterable(part.samples for part in self._parts)))

    def feed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        self._keep_place(block, now_us, records)
        for part in self._parts:
            part.feed(parsed, block, now_us, records)

    def shed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        """Leave a block out because there is no room for it."""
        self._keep_place(block, now_us, records)
        for part in self._parts:
            part.shed(parsed, block, now_us, records)

    def lost(self, gaps: Sequence[Gap]) -> None:
        for part in self._parts:
            part.lost(gaps)

    def observe(self, sources: Iterable[SourceState], now_us: int, agreed_us: int | None = None) -> None:
        """Report the outcome of a poll; see `Watermark.observe`."""
        present = tuple(sources)
        for part in self._parts:
            part.observe(present, now_us, agreed_us)

    def pause(self, now_us: int) -> None:
        """The reader stops; the watermark stands still."""
        for part in self._parts:
            part.pause(now_us)

    def resume(self, now_us: int) -> None:
        for part in self._parts:
            part.resume(now_us)

    @property
    def newest(self) -> int | None:
        """The interval of the newest record that was read, in this boot or one before."""
        return self.head.times.newest_ever

    @property
    def carried(self) -> tuple[Carried, ...]:
        """What no replay counts and is not sealed yet."""
        return tuple(each for part in self._parts for each in part.tally.carried)

    @property
    def revs_used(self) -> tuple[tuple[int, int], ...]:
        """What another version has said of intervals about which nothing that counts was said."""
        return () if self.late is None else tuple(sorted(self.late.revs_used.items()))

    def close_below(self, floor: int) -> None:
        """Intervals below are closed: nothing of them is revised from now on. Any thread."""
        if self.late is not None:
            self.late.close_below(floor)

    def drop_closed(self) -> None:
        """What came late for intervals that are closed by now, and is in no revision, is late for good."""
        self.head.drop_closed()

    def revise(self, now_us: int, room: int) -> list[Revision]:
        """Everything that records came late for; what does not fit in so many bytes is an overflow."""
        head = self.head
        revisions, lost = head.take_late(now_us, room)
        is_done = head.stop is not None and head.next_index >= head.stop
        (self._parts[1] if is_done else head).give_up(lost, OVERFLOW)
        return revisions

    @property
    def shed_stretches(self) -> tuple[Stretch, ...]:
        return tuple(dict.fromkeys(each for part in self._parts for each in part.offsets.shed()))

    def positions(self) -> tuple[FilePosition, ...]:
        """Where reading must restart so that every open pane of every version can be filled again."""
        self._places.close_below(self.next_index)
        earliest: dict[FileKey, FilePosition] = {}
        needed = (self._places.restart(), *(part.offsets.restart() for part in self._parts))
        for position in chain.from_iterable(needed):
            if position.key not in earliest or position.offset < earliest[position.key].offset:
                earliest[position.key] = position
        return tuple(earliest.values())

    @property
    def edges(self) -> tuple[FilePosition, ...]:
        """Offsets that no block may reach across when it is read again."""
        edges = (edge for part in self._parts for edge in part.offsets.edges())
        return tuple(dict.fromkeys((*edges, *self._turns)))

    def turns(self, start: int) -> tuple[FilePosition, ...]:
        """Where the intervals behind `start` have begun, before they are sealed.

        Errors have no time, and belong to the newest interval when they are met. If a part of what is sealed
        together is annulled, a replay that read across these places would count in another interval.
        """
        window = self.head.statement.window
        slide = 1 if window is None else window.slide_us // window.pane_us
        begun = self.head.offsets.begun_from((start + 1) * slide)
        return tuple(dict.fromkeys((*self._turns, *begun)))

    @property
    def read_up_to(self) -> tuple[ReadUpTo, ...]:
        """What lives before have counted beyond what this one has read."""
        return self.head.offsets.read_up_to()

    def read_positions(self) -> tuple[FilePosition, ...]:
        return self.head.offsets.reached()

    def _keep_place(self, block: Block, now_us: int, records: BlockRows) -> None:
        """Where versions date records by different columns, keep the block for the intervals of each.

        The others' workers are gone or take their own intervals only, and a version that dates no record has
        no pane to keep a place for. Cost: one conversion per block and column, if there are several.
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

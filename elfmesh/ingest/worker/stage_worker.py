"""Worker of one version of a job at one agent; other versions evaluate other intervals.

It counts the records of its intervals. Records of no interval (late, unusable, lost) are counted here if they
are read while one of its intervals is open. `staged` combines the versions.

Paper: ELF 3 (job functions updated at run time).
"""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh import ql
from elfmesh.control.jobs.records import EXPIRED, FILTERED, FIRST, LATE
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events_standby import CutPane
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources import Block
from elfmesh.ingest.worker.beginning import Resumed, SharedWorkerState
from elfmesh.ingest.worker.cutting import PaneTail, whole_panes
from elfmesh.ingest.worker.early import EarlyStates, EarlyWindows
from elfmesh.ingest.worker.early_partitions import SealedWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ingest.worker.late import LateRecords
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql import Prepared
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows


class StageWorker(JobWorker):
    """Worker of the intervals [first, stop) of a job, by one version.

    `ends_at`: because its logs have ended, exactly the intervals below are sealed; None: they have not.
    `heir`: another version precedes it and counts older records until `inherit`. `late` receives late records
    of this and of earlier versions. From `alike_from` on, versions have the same time columns.
    """

    def __init__(
        self,
        stage: Stage,
        stop: int | None,
        *,
        heir: bool,
        start_index: int,
        resumed: Resumed,
        around: SharedWorkerState,
        late: LateRecords | None,
        alike_from: int,
    ) -> None:
        self.stop, self._heir = stop, False
        first = max(resumed.next, stage.start) if heir else resumed.next
        carried = [each for each in resumed.carried if _within(each[0], first if heir else None, stop)]
        super().__init__(
            ql.parse(stage.manifest.text),
            replace(resumed, next=first, carried=tuple(carried)),
            around,
            start_index=first if heir else start_index,
            late=late,
            functions=around.functions.get(stage.evaluated),
        )
        self.evaluated, self._since_us, self._seed = stage.evaluated, stage.manifest.since_us, around.seed
        self._until_us = self.times.watermark.until_us = stage.manifest.until_us
        self._heir, self._first = heir, first
        self.early: EarlyWindows | SealedWindows | None = None
        if self.statement.job is not None and self.statement.job.early_us is not None:
            kind = EarlyWindows if self.statement.plan.seal is None else SealedWindows
            self.early = kind(self.statement, around.seed)
        self.tail: PaneTail | None = None
        self.ends_at: int | None = None
        self._job_start, self._alike_from = start_index, alike_from
        if not heir:
            self._date_late()

    @property
    def groups(self) -> int:
        """Return the number of PAO rows in the panes."""
        return self._panes.rows

    @property
    def nbytes(self) -> int:
        beside = (self.early, self.tail)
        return super().nbytes + sum(each.nbytes for each in beside if each is not None)

    def cut_whole(self) -> list[CutPane]:
        """Return all open panes; from now on `cut` returns what is read."""
        if self.tail is None:
            self.tail = PaneTail(self.statement, self.evaluated, self._seed)
        self.tail.clear()
        return whole_panes(self.evaluated, self.tally, self._panes)

    def _inserted(self, prepared: Prepared) -> None:
        if self.early is not None:
            self.early.insert(batches_of(prepared))
        if self.tail is not None:
            self.tail.insert(prepared)

    def _close(self, upto: int) -> None:
        super()._close(upto)
        if self.early is not None:
            self.early.drop_below(upto)
        if self.tail is not None:
            self.tail.drop_below(upto * self._slide)

    def take_early(self, members: int) -> list[EarlyStates]:
        """Return the states of open windows that this version reports to the master."""
        return [] if self.early is None else self.early.take(self.next_index, self.stop, members)

    def inherit(self) -> None:
        """Take over the counting of late and lost records, because the earlier versions are sealed."""
        self._heir, self._start = False, self._job_start
        self._date_late()

    def _date_late(self) -> None:
        if self.late is not None:
            self.late.revise_from(self._alike_from)
            self.drop_closed()

    @property
    def _lowest(self) -> int:
        return self._next if self._heir else super()._lowest

    @property
    def ready_index(self) -> int:
        """Return the greatest argument for `seal`: at most the end of this version, and of the job."""
        ready = super().ready_index if self.ends_at is None else max(self.next_index, self.ends_at)
        if self._until_us is not None and self.ends_at is None:
            end = -(-self._until_us // self._slide_us)
            ready = max(self.next_index, end if self.watermark_us >= self._until_us else min(ready, end))
        return ready if self.stop is None else min(ready, max(self.stop, self.next_index))

    def shed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        """Drop a block; the version that evaluates the open interval counts it."""
        self.times.usable(records, block, self._time(block), now_us)
        if self._mine(self.times.newest_index):
            super().shed(parsed, block, now_us, records)
        else:
            self.offsets.read(block)

    def _dated(
        self, records: BlockRows, block: Block, now_us: int, read_up_to: int | None
    ) -> tuple[BlockRows, int]:
        still_open, undated = super()._dated(records, block, now_us, read_up_to)
        assert self._window is not None
        column = self._time(block)
        if self.stop is not None:
            end_us = (self.stop - 1) * self._slide_us + self._window.size_us
            still_open = still_open.within(column, INT64_MIN, end_us - 1)
        if self._since_us is not None:
            erased = still_open.within(column, INT64_MIN, self._since_us - 1)
            for pane, number in erased.panes(column, self._window.pane_us).counts.items():
                self.tally.count_pane(FILTERED, number, pane)
                self.offsets.begin(pane, block)
            still_open = still_open.within(column, self._since_us, INT64_MAX)
        return still_open, undated

    def _count(
        self, bucket: int, number: int, index: int | None, block: Block, read_up_to: int | None
    ) -> None:
        if self._mine(index):
            super()._count(bucket, number, index, block, read_up_to)

    def _count_once(self, bucket: int, number: int, index: int | None, home: int = FIRST) -> None:
        if self._mine(index) and not (self._heir and bucket in (LATE, EXPIRED)):
            super()._count_once(bucket, number, index, home)

    def _mine(self, index: int | None) -> bool:
        if self._heir:
            return index is not None and index >= self._first and (self.stop is None or index < self.stop)
        return self.stop is None or index is None or index < self.stop


def _within(index: int | None, first: int | None, stop: int | None) -> bool:
    if index is None:
        return first is None
    return (first is None or index >= first) and (stop is None or index < stop)

"""Worker of one job at one agent: from parsed blocks to sealed intervals, every record in one bucket (D-1).

Plain synchronous code that the pump runs in a thread; does not depend on files, threads or the network.
Invariants:

- A record is contributed to or filtered from every open window that contains it, and by a revision (`late`)
  from sealed windows that are not closed. If all its windows are closed it is late; if some are, it is late
  once for each. Late records and lines without a usable time are counted in the interval that is open when
  they are read.
- Intervals are sealed in order; a sealed interval never changes (D-3).
- `offsets.restart()` has for each file the smallest beginning of a block that put the first record into an
  open pane: from there everything that is not yet sealed can be read again.
- Replay (D-1): records of the intervals below `read_up_to` are skipped without counting, because the sealed
  frames count them. Counts that a replay would not repeat, such as gaps, are `carried` with every frame.

Paper: ELF 2.2 (each agent's own CBT), 3 (an agent that comes back replays its log).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elfmesh.cbt import Content, Panes, TypeConflict
from elfmesh.control.jobs.records import (
    BROKEN,
    CONTRIBUTED,
    EXPIRED,
    FILTERED,
    FIRST,
    FUNCTION_ERROR,
    LATE,
    NOT_COUNTED,
    PARSE_ERROR,
    SHED,
    SOURCE_GAP,
)
from elfmesh.errors import DataError, QueryError
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources import Block, Gap, SourceState
from elfmesh.ingest.worker.beginning import ALONE, FRESH, Resumed, SharedWorkerState
from elfmesh.ingest.worker.eventtimes import EventTimes
from elfmesh.ingest.worker.insertion import insert
from elfmesh.ingest.worker.intervals import OpenInterval, WorkerInterval, encoded
from elfmesh.ingest.worker.late import LateRecords, Lost, Revision
from elfmesh.ingest.worker.offsets import JobOffsets
from elfmesh.ingest.worker.problems import InputProblems
from elfmesh.ingest.worker.tally import Tally
from elfmesh.ingest.worker.watermark import SINCE_EVER
from elfmesh.ql import Prepared, Query, Statement
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, BlockRows
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.ql.values.growth import TooLarge
from elfmesh.safeguards import safeguard

MAX_FUTURE_US = 3_600_000_000


class JobWorker:
    """Worker of one job over this agent's records.

    Args:
        statement: the job's query.
        resumed: the state after a restart.
        around: objects that it shares with other workers.
        start_index: the first interval of this agent; older records are expired.
        max_future_us: greatest distance of a timestamp ahead of the clock; None: no limit.
        strict: raise if records do not fit the query's types (`elf run`) instead of counting them as errors.
        late: receives late records of sealed intervals that are not closed; None: they are dropped.
        functions: evaluates the Python functions of the statement.
    """

    @safeguard("future")
    def __init__(
        self,
        statement: Statement,
        resumed: Resumed = FRESH,
        around: SharedWorkerState = ALONE,
        *,
        start_index: int = FIRST,
        max_future_us: int | None = MAX_FUTURE_US,
        strict: bool = False,
        late: LateRecords | None = None,
        functions: FunctionSource | None = None,
    ) -> None:
        self.statement = statement
        self.query = Query(statement, around.labels, around.lookup, functions, around.member)
        self._stream = around.stream
        self.problems = InputProblems()
        window, job = statement.window, statement.job
        self._window = window
        self._slide = window.slide_us // window.pane_us if window else 1
        self._slide_us = window.slide_us if window else 1
        self._size = window.size_us // window.pane_us if window else 1
        self.tally = Tally(self._slide, self._size, len(self.query.assumptions.dependencies))
        self._partitions = job.partitions if job else 1
        self._strict = strict
        size_us, slide_us = (window.size_us, window.slide_us) if window else (None, None)
        self._panes = Panes(statement.tables, size_us, slide_us, budget=around.budget, seed=around.seed)
        self._encode = around.encode
        lateness_us = job.lateness_us if job else 0
        self.times = EventTimes(window, lateness_us, around.idle_us, max_future_us, resumed.newest)
        self._until_us: int | None = None
        self._start = start_index
        self._next = max(start_index, resumed.next)
        self.offsets = JobOffsets(resumed.read_up_to, resumed.shed)
        self.times.resumed(resumed.read_up_to)
        self.late = late
        for index, home, counts in resumed.carried:
            for bucket, number in enumerate(counts):
                self._count_once(bucket, number, index, home)

    @property
    def totals(self) -> list[int]:
        return self.tally.all_totals

    @property
    def columns(self) -> tuple[str, ...]:
        return self.statement.fields

    @property
    def watermark_us(self) -> int:
        """Return the event time below which this agent expects no more records."""
        return self.times.watermark.value_us

    @property
    def next_index(self) -> int:
        """Return the first interval that is not sealed; FIRST if none is sealed."""
        return self._next

    @property
    @safeguard("watermark")
    def ready_index(self) -> int:
        """Return the greatest argument for `seal`: all windows below it end at or before the watermark."""
        if self._window is None or self.watermark_us == SINCE_EVER:
            return self._next
        return max(self._next, (self.watermark_us - self._window.size_us) // self._window.slide_us + 1)

    @property
    def end_index(self) -> int:
        """Return one past the last interval with rows or counts; `seal` with it seals everything."""
        return max(self._next, self.tally.end)

    @property
    def nbytes(self) -> int:
        late = self.late.nbytes if self.late is not None else 0
        return self._panes.nbytes + self.tally.assumed.nbytes + late

    def feed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows | None = None) -> None:
        """Process the records of one block.

        `now_us` is for timestamps too far in the future: the later one of this clock and most peers' clocks.
        `records` are the rows of `parsed` if other jobs use them as well, so that computed values are shared.
        """
        if records is None:
            records = BlockRows(parsed.arrays, parsed.rows)
            self.feed(parsed, block, now_us, records)
            records.release()
            return
        counted_below = self.offsets.counted_below(block)
        if counted_below is not None and self.offsets.was_left_out(block):
            self.offsets.read(block)
            return
        self.problems.parsed(parsed)
        errors = parsed.errors
        if self._window is not None:
            records, undated = self._dated(records, block, now_us, counted_below)
            errors += undated
        if records.rows:
            refused, failed = self._insert(records, block, counted_below)
            self._count(FUNCTION_ERROR, failed, self.times.newest_at(counted_below), block, counted_below)
            self._count(PARSE_ERROR, refused, self.times.newest_at(counted_below), block, counted_below)
        if errors and counted_below is None:  # errors have no time, so frames identify a replay
            self._count_once(PARSE_ERROR, errors, self.times.newest_ever)
        self.offsets.read(block)

    def shed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        """Drop a block because there is no room for it; input that a restart reads again is processed."""
        counted_below = self.offsets.counted_below(block)
        if self._window is not None and counted_below is None:
            self.times.usable(records, block, self._time(block), now_us)
        newest = self.times.newest_index
        if newest is None or self._window is None or counted_below is not None:
            self.feed(parsed, block, now_us, records)
            return
        index = max(newest, self._next)
        self.tally.count(SHED, parsed.lines, index)
        self.offsets.leave_out(index * self._slide, block)
        self.offsets.read(block)

    def lost(self, gaps: Sequence[Gap]) -> None:
        """Count the losses of the sources, one per gap, in the interval that is open now."""
        if gaps:
            self._count_once(SOURCE_GAP, len(gaps), self.times.newest_index)

    def drop_closed(self) -> None:
        """Count late records that are in no revision as late, if their intervals are closed."""
        if self.late is not None:
            self.give_up(self.late.drop(), LATE)

    def take_late(self, now_us: int, room: int) -> tuple[list[Revision], list[Lost]]:
        """Return the revisions with late records, and the counts of those beyond `room` bytes."""
        return ([], []) if self.late is None else self.late.take(now_us, room, self.problems.sample)

    def give_up(self, lost: Iterable[Lost], to: int) -> None:
        """Count late records that are in no interval of theirs.

        `filtered` is only for an interval's own records.
        """
        for home, counts in lost:
            for bucket, number in enumerate(counts[: len(NOT_COUNTED)]):
                was_one = bucket in (CONTRIBUTED, FILTERED)
                self.tally.count_once(to if was_one else bucket, number, self._next, home, total=False)

    def observe(
        self,
        sources: Iterable[SourceState],
        now_us: int,
        agreed_us: int | None = None,
        latest_us: int | None = None,
    ) -> int:
        present = {state.id: state for state in sources}
        self.offsets.keep(present)
        ends = ((state.id, state.at_end) for state in present.values())
        return self.times.watermark.observe(ends, now_us, agreed_us, latest_us)

    def pause(self, now_us: int) -> None:
        self.times.watermark.pause(now_us)

    def resume(self, now_us: int) -> None:
        self.times.watermark.resume(now_us)

    def seal(self, upto_index: int) -> list[WorkerInterval]:
        """Seal all intervals below `upto_index`; returns those with rows or counts, in order."""
        return [
            encoded(interval, self._encode, self._partitions, self.problems.sample)
            for interval in self.take(upto_index)
        ]

    def inputs_below(self, upto_index: int) -> dict[int, tuple[int, ...]]:
        """Return the records by input of the open intervals below; empty for a text with one input."""
        inputs = len(self.statement.parts)
        if not inputs:
            return {}
        occupied = self.tally.occupied(self._next, upto_index)
        return {index: self.tally.inputs_of(index, inputs) for index in occupied}

    def take(self, upto_index: int) -> Iterator[OpenInterval]:
        """As `seal`, with unencoded tables. The intervals are sealed when the iterator is exhausted."""
        if upto_index <= self._next:
            return
        self.tally.place_homeless(upto_index - 1)
        for index in self.tally.occupied(self._next, upto_index):
            yield self.peek(index)
        self._close(upto_index)

    def peek(self, index: int) -> OpenInterval:
        """Return an open interval as `take` does, and leave it open. Read it before the next change."""
        counts = self.tally.of(index)
        if counts[BROKEN:]:
            self.problems.sample(f"interval {index}: violations of ASSUME: {counts[BROKEN]}")
        return OpenInterval(index, *self._whole(index, counts))

    def _whole(self, index: int, counts: list[int]) -> tuple[tuple[int, ...], Mapping[str, Content] | None]:
        try:
            return tuple(counts), self._panes.window(index)
        except TypeConflict as error:
            if self._strict:
                raise
            self.problems.sample(f"interval {index}: {error}")
            counts[PARSE_ERROR] += counts[CONTRIBUTED]
            counts[CONTRIBUTED] = 0
            return tuple(counts), None

    def _dated(
        self, records: BlockRows, block: Block, now_us: int, read_up_to: int | None
    ) -> tuple[BlockRows, int]:
        column = self._time(block)
        usable = self.times.usable(records, block, column, now_us)
        undated = records.rows - usable.rows
        if undated:
            self.problems.sample(f"no usable time in {column}")
        if self._until_us is not None:  # the job has ended before these records
            usable = usable.within(column, INT64_MIN, self._until_us - 1)
        still_open = usable.within(column, self._next * self._slide_us, INT64_MAX)
        # Sealed intervals contain their records already; intervals that were open before the restart do not.
        new = usable if read_up_to is None else usable.within(column, read_up_to * self._slide_us, INT64_MAX)
        if new.rows > still_open.rows:
            # The next frame must contain them, because a replay cannot distinguish them from records in time.
            lowest_us, start_us = self._lowest * self._slide_us, self._start * self._slide_us
            self._count_once(EXPIRED, new.within(column, INT64_MIN, start_us - 1).rows, self._next)
            past = new.within(column, start_us, lowest_us - 1)
            for home, number in past.panes(column, self._slide_us).counts.items() if past.rows else ():
                self._count_once(LATE, number, self._next, home)
        if self._lowest < self._next:
            self._revise(new, block, read_up_to)
        return still_open, undated

    @property
    def _lowest(self) -> int:
        return self._next if self.late is None else min(self._next, self.late.floor)

    def _revise(self, records: BlockRows, block: Block, read_up_to: int | None) -> None:
        if self.late is None:
            return
        lowest = self._lowest if read_up_to is None else max(self._lowest, read_up_to)
        origin = (self._time(block), block.stream or self._stream)
        fed = self.late.feed(records, origin, lowest, self._next, self.problems.sample)
        self.tally.totals[CONTRIBUTED] += fed.contributed
        for (bucket, home), number in fed.left_out.items():
            self._count_once(bucket, number, self._next, home)
        self._count_missed(fed.lowest, lowest, read_up_to)

    def _time(self, block: Block) -> str:
        return self.statement.time_of(block.stream or self._stream)

    def _insert(self, records: BlockRows, block: Block, read_up_to: int | None) -> tuple[int, int]:
        stream = block.stream or self._stream
        try:
            checked = self.query.assumptions.check(records)
            prepared, refused = insert(self.query, self._panes, records, self.problems.sample, stream)
        except TooLarge as error:
            if records.rows > 1:
                return self._insert_halves(records, block, read_up_to)
            self.problems.sample(str(error))
            return 1, 0
        except (DataError, QueryError) as error:
            if self._strict:
                raise
            self.problems.sample(str(error))
            return records.rows, 0
        self._count_panes(prepared, read_up_to)
        if checked is not None and (window := self._window) is not None:
            panes = records.panes(self._time(block), window.pane_us).indices
            self.tally.assumed.add(checked, panes, self.problems.sample)
        self._inserted(prepared)
        for pane in (*prepared.kept, *prepared.filtered):
            self.offsets.begin(pane, block)
        return refused, prepared.failed

    def _inserted(self, prepared: Prepared) -> None:
        """Handle rows that the panes have taken."""

    def _insert_halves(self, records: BlockRows, block: Block, read_up_to: int | None) -> tuple[int, int]:
        (refused, failed), (refused_too, failed_too) = (
            self._insert(half, block, read_up_to) for half in records.halves()
        )
        return refused + refused_too, failed + failed_too

    def _count_panes(self, prepared: Prepared, read_up_to: int | None) -> None:
        for bucket, panes in ((CONTRIBUTED, prepared.kept), (FILTERED, prepared.filtered)):
            for pane, number in panes.items():
                self.tally.count_pane(bucket, number, pane)
        for at, kept in prepared.kept_by_input.items():
            for pane, number in kept.items():
                self.tally.count_input(at, number, pane)
        if self._lowest == self._next:  # otherwise the path of late records counts them
            for pane, number in prepared.kept.items():
                earliest = -((self._size - 1 - pane) // self._slide)
                self._count_missed({earliest: number}, self._next, read_up_to)

    def _count_missed(self, kept: Mapping[int, int], lowest: int, read_up_to: int | None) -> None:
        """Count records as late once for each of their windows below `lowest`; `kept` is by first window."""
        for earliest, number in kept.items():
            first = max(self._start, earliest, FIRST if read_up_to is None else read_up_to)
            reported_again = lowest if self.late is None else max(first, min(lowest, self.late.closed))
            self._count_once(LATE, max(reported_again - first, 0) * number, self._next)
            for home in range(reported_again, lowest):
                self._count_once(LATE, number, self._next, home)

    def _count(
        self, bucket: int, number: int, index: int | None, block: Block, read_up_to: int | None
    ) -> None:
        if not number or (read_up_to is not None and (index is None or index < read_up_to)):
            return
        if index is None or index < self._next:
            self._count_once(bucket, number, index, FIRST if index is None else index)
        else:
            self.tally.count(bucket, number, index)
            self.offsets.begin(index * self._slide, block)

    def _count_once(self, bucket: int, number: int, index: int | None, home: int = FIRST) -> None:
        """Count records that a replay will not count again, unless their interval is evaluated again."""
        if self.late is None or home < self.late.closed:
            home = FIRST
        self.tally.count_once(bucket, number, None if index is None else max(index, self._next), home)

    def _close(self, upto: int) -> None:
        if upto <= self._next:
            return
        self._next = upto
        floor = upto * self._slide
        self._panes.drop_below(floor)
        self.offsets.close_below(floor)
        self.tally.close_below(upto)

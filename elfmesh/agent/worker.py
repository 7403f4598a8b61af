"""One job at one agent: parsed blocks in, sealed intervals out, and every record in exactly one bucket (D-1).

Owns the panes of one job, its counts, its watermark and the offsets to restart from. Refuses to know files,
threads and the network; heavy calls (`feed`, `seal`) are plain synchronous code that the pump runs in a
thread. Invariants:

- A record is contributed to or filtered from every open window it falls in; if all its windows are sealed
  it is late; if only some are, it counts as late once for each of those. Late records and lines without a
  usable time are counted in the interval that is open when they are read.
- Intervals are sealed in order; what is sealed never changes (D-3).
- `positions()` names offsets from which everything not yet sealed can be read again: per file, the smallest
  beginning of a block that put the first record into an open pane.
- Replay (D-1): blocks before `replay_until` were read before the restart; of them, records of sealed
  intervals are skipped without counting, since the frames that were sealed then already count them.
- A gap cannot be read again: what is counted in open intervals is `open_gaps`, stored with every frame.

Paper: ELF 2.2 (each agent's own CBT), 3 (an agent that comes back replays its log).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elfmesh.agent.insertion import insert
from elfmesh.agent.intervals import OpenInterval, SealedInterval, add_to
from elfmesh.agent.offsets import Offsets, Stretch
from elfmesh.agent.parsers import Parsed
from elfmesh.agent.sources import Block, FilePosition, Gap, SourceId, SourceState
from elfmesh.agent.watermark import IDLE_US, SINCE_EVER, Watermark
from elfmesh.cbt import Content, Encode, Panes, TypeConflict, encode_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.ql import Prepared, Query, Statement
from elfmesh.control.ql.block import INT64_MAX, INT64_MIN, BlockRows
from elfmesh.control.records import BUCKETS, FIRST
from elfmesh.errors import DataError, QueryError

CONTRIBUTED, FILTERED, PARSE_ERROR, LATE, EXPIRED, SOURCE_GAP, SHED = map(
    BUCKETS.index, ("contributed", "filtered", "parse_error", "late_dropped", "expired", "source_gap", "shed")
)
MAX_FUTURE_US = 3_600_000_000
SAMPLES_MAX = 3


class JobWorker:
    """Evaluates one job over this agent's records.

    Args:
        statement: the job's query.
        start_index: the first interval this agent takes part in; older records are expired.
        next_index: after a restart, the first interval that was not sealed.
        replay_until: after a restart, how far the sealed frames had read (`read_positions` at the last seal).
        shed: after a restart, what was left out (`shed_stretches` at the last seal).
        open_gaps: after a restart, (interval, gaps counted in it) of those that were not sealed.
        max_future_us: how far a timestamp may be ahead of the clock; None: any.
        idle_us: see `Watermark`.
        strict: raise when records do not fit the query's types (`elf run`) instead of counting them as
            errors.
        budget: the memory that the panes share with those of other jobs; None: as much as they take.
        seed: of the tables of keys, so that nobody can choose keys that collide.
        encode: makes the partials of an interval, one per partition.

    Attributes:
        totals: records per bucket since the worker began.
        samples: up to three reasons why a line or a value was not usable.
        field_errors: values that did not fit their column and became null.
        replaced: lines in which malformed UTF-8 was replaced.
    """

    def __init__(
        self,
        statement: Statement,
        *,
        start_index: int = FIRST,
        next_index: int = FIRST,
        replay_until: Iterable[FilePosition] = (),
        open_gaps: Iterable[tuple[int | None, int]] = (),
        shed: Iterable[Stretch] = (),
        max_future_us: int | None = MAX_FUTURE_US,
        idle_us: int = IDLE_US,
        strict: bool = False,
        budget: MemoryBudget | None = None,
        seed: int = 0,
        encode: Encode = encode_parts,
    ) -> None:
        self.statement = statement
        self.query = Query(statement)
        self.totals = [0] * len(BUCKETS)
        self.samples: list[str] = []
        self.field_errors = 0
        self.replaced = 0
        window, job = statement.window, statement.job
        self._window = window
        self._slide = window.slide_us // window.pane_us if window else 1
        self._slide_us = window.slide_us if window else 1
        self._size = window.size_us // window.pane_us if window else 1
        self._partitions = job.partitions if job else 1
        self._max_future_us = max_future_us
        self._strict = strict
        self._panes = Panes(
            statement.tables,
            window.size_us if window else None,
            window.slide_us if window else None,
            budget=budget,
            seed=seed,
        )
        self._encode = encode
        self._watermark = Watermark(job.lateness_us if job else 0, idle_us=idle_us)
        self._start = start_index
        self._resumed, self._next = next_index, max(start_index, next_index)
        self._offsets = Offsets(replay_until, shed)
        self._pane_counts: dict[int, list[int]] = {}
        self._other_counts: dict[int, list[int]] = {}
        self._homeless = [0] * len(BUCKETS)
        self._newest_us: int | None = None
        self._open_gaps: dict[int | None, int] = {}
        for index, number in open_gaps:
            self._count_gaps(number, index)

    @property
    def columns(self) -> tuple[str, ...]:
        """The dotted paths to ask the parser for."""
        return self.statement.fields

    @property
    def watermark_us(self) -> int:
        """Event time below which this agent expects nothing more."""
        return self._watermark.value_us

    @property
    def next_index(self) -> int:
        """The first interval that is not sealed; FIRST as long as none is."""
        return self._next

    @property
    def ready_index(self) -> int:
        """What `seal` may be called with: all windows below it end at or before the watermark."""
        if self._window is None or self.watermark_us == SINCE_EVER:
            return self._next
        return max(self._next, (self.watermark_us - self._window.size_us) // self._window.slide_us + 1)

    @property
    def end_index(self) -> int:
        """One past the last interval that has rows or counts: what seals everything there is."""
        last = [pane // self._slide for pane in self._pane_counts] + list(self._other_counts)
        return max(last, default=self._next - 1) + 1

    @property
    def nbytes(self) -> int:
        """Bytes held by the panes."""
        return self._panes.nbytes

    def feed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows | None = None) -> None:
        """Take the records of one block.

        Args:
            parsed: has at least the query's columns.
            block: where they came from.
            now_us: wall clock, for timestamps too far in the future.
            records: the rows of `parsed`, if other jobs take them as well: what one of them computes is there
                for all.
        """
        if records is None:
            records = BlockRows(parsed.arrays, parsed.rows)
            self.feed(parsed, block, now_us, records)
            records.release()
            return
        replaying = self._offsets.replaying(block)
        if replaying and self._offsets.was_left_out(block):
            self._offsets.read(block)
            return
        self._note(parsed)
        errors = parsed.errors
        if self._window is not None:
            records, undated = self._dated(records, block, now_us, replaying)
            errors += undated
        if records.rows:
            errors += self._insert(records, block, replaying)
        if errors:
            self._count(PARSE_ERROR, errors, self._newest_index(), block, replaying)
        self._offsets.read(block)

    def shed(self, parsed: Parsed, block: Block, now_us: int, records: BlockRows) -> None:
        """Leave a block out because there is no room for it; what a restart reads again is taken."""
        if self._window is not None and not self._offsets.replaying(block):
            self._usable(records, block, now_us)
        newest = self._newest_index()
        if newest is None or self._window is None or self._offsets.replaying(block):
            self.feed(parsed, block, now_us, records)
            return
        index = max(newest, self._next)
        self.totals[SHED] += parsed.lines
        add_to(self._other_counts, index, SHED, parsed.lines)
        self._offsets.leave_out(index * self._slide, block)
        self._offsets.read(block)

    def lost(self, gaps: Sequence[Gap]) -> None:
        """Count what the sources have lost, one per gap, in the interval that is open now."""
        if gaps:
            self._count_gaps(len(gaps), self._newest_index())

    @property
    def open_gaps(self) -> tuple[tuple[int | None, int], ...]:
        """What of the gaps is not sealed yet: the `open_gaps` of a restart."""
        return tuple(self._open_gaps.items())

    def observe(self, sources: Iterable[SourceState], now_us: int) -> int:
        """Report the outcome of a poll; moves and returns the watermark.

        Args:
            sources: the files behind this job and whether each is read to its end.
            now_us: wall clock before the poll.
        """
        present = {state.id: state for state in sources}
        self._offsets.keep(present)
        return self._watermark.observe(((state.id, state.at_end) for state in present.values()), now_us)

    def pause(self, now_us: int) -> None:
        """The reader stops because of back-pressure; the watermark stands still."""
        self._watermark.pause(now_us)

    def resume(self, now_us: int) -> None:
        """The reader goes on."""
        self._watermark.resume(now_us)

    def seal(self, upto_index: int) -> list[SealedInterval]:
        """Close all intervals below `upto_index`; those with rows or counts are returned, in order.

        Cost: one merge of panes and one encoding per interval that has rows.
        """
        sealed: list[SealedInterval] = []
        for interval in self.take(upto_index):
            payloads = (b"",) * self._partitions
            if interval.tables is not None:
                payloads = tuple(self._encode(interval.tables, self._partitions))
            sealed.append(SealedInterval(interval.index, interval.counts, payloads))
        return sealed

    def take(self, upto_index: int) -> Iterator[OpenInterval]:
        """The same, with the tables as they are. The intervals are closed when the iterator is exhausted."""
        if upto_index <= self._next:
            return
        if any(self._homeless):
            for bucket, number in enumerate(self._homeless):
                add_to(self._other_counts, upto_index - 1, bucket, number)
            self._homeless = [0] * len(BUCKETS)
            self._open_gaps.pop(None, None)
        for index in self._occupied(upto_index):
            counts = list(self._other_counts.get(index, (0,) * len(BUCKETS)))
            for pane in self._panes_of(index):
                contributed, filtered = self._pane_counts.get(pane, (0, 0))
                counts[CONTRIBUTED] += contributed
                counts[FILTERED] += filtered
            yield OpenInterval(index, *self._whole(index, counts))
        self._close(upto_index)

    def _whole(self, index: int, counts: list[int]) -> tuple[tuple[int, ...], Mapping[str, Content] | None]:
        """The counts and tables of an interval; panes that do not fit together are errors, all of them."""
        try:
            return tuple(counts), self._panes.window(index)
        except TypeConflict as error:
            if self._strict:
                raise
            self._sample(f"interval {index}: {error}")
            counts[PARSE_ERROR] += counts[CONTRIBUTED]
            counts[CONTRIBUTED] = 0
            return tuple(counts), None

    def positions(self) -> tuple[FilePosition, ...]:
        """Where reading must restart so that every open pane can be filled again."""
        return self._offsets.restart()

    @property
    def edges(self) -> tuple[FilePosition, ...]:
        """Offsets that no block may reach across when it is read again: the `boundaries` of a reader."""
        return self._offsets.edges()

    @property
    def shed_stretches(self) -> tuple[Stretch, ...]:
        """What was left out and is sealed: the `shed` of a restart."""
        return self._offsets.shed()

    def read_positions(self) -> tuple[FilePosition, ...]:
        """How far each file was read: the `replay_until` of a restart."""
        return self._offsets.reached()

    def _dated(self, records: BlockRows, block: Block, now_us: int, replaying: bool) -> tuple[BlockRows, int]:
        """The records of open intervals, and how many have no usable time; those too late are counted."""
        assert self._window is not None
        column = self._window.column
        usable = self._usable(records, block, now_us)
        undated = records.rows - usable.rows
        if undated:
            self._sample(f"no usable time in {column}")
        still_open = usable.within(column, self._next * self._slide_us, INT64_MAX)
        # What was sealed before the restart is counted; what was open then and is closed now is not.
        told = usable.within(column, self._resumed * self._slide_us, INT64_MAX) if replaying else usable
        if past := told.rows - still_open.rows:
            expired = told.rows - told.within(column, self._start * self._slide_us, INT64_MAX).rows
            # The next frame must have them: a replay cannot tell them from those that were in time.
            self._count(EXPIRED, expired, self._next, block, False)
            self._count(LATE, past - expired, self._next, block, False)
        return still_open, undated

    def _usable(self, records: BlockRows, block: Block, now_us: int) -> BlockRows:
        """The records that have a time; the watermark learns the largest."""
        assert self._window is not None
        column = self._window.column
        most_us = INT64_MAX if self._max_future_us is None else now_us + self._max_future_us
        usable = records.within(column, INT64_MIN, most_us)
        largest = usable.times(column).largest
        if largest is not None:
            self._newest_us = largest if self._newest_us is None else max(self._newest_us, largest)
        self._watermark.fed(_source(block), largest, now_us)
        return usable

    def _insert(self, records: BlockRows, block: Block, replaying: bool) -> int:
        """Put records into their panes and count them; returns how many could not be used."""
        try:
            prepared, refused = insert(self.query, self._panes, records, self._sample)
        except (DataError, QueryError) as error:
            if self._strict:
                raise
            self._sample(str(error))
            return records.rows
        self._count_panes(prepared, replaying)
        for pane in (*prepared.kept, *prepared.filtered):
            self._offsets.begin(pane, block)
        return refused

    def _count_panes(self, prepared: Prepared, replaying: bool) -> None:
        for bucket, panes in ((CONTRIBUTED, prepared.kept), (FILTERED, prepared.filtered)):
            for pane, number in panes.items():
                self.totals[bucket] += number
                self._pane_counts.setdefault(pane, [0, 0])[bucket] += number
                missed = self._next - max(self._start, -((self._size - 1 - pane) // self._slide))
                if missed > 0 and bucket == CONTRIBUTED and not replaying:
                    self.totals[LATE] += missed * number
                    add_to(self._other_counts, self._next, LATE, missed * number)

    def _count(self, bucket: int, number: int, index: int | None, block: Block, replaying: bool) -> None:
        """Count records that belong to no pane in the interval that is open now."""
        if not number or (replaying and index is not None and index < self._next):
            return
        self.totals[bucket] += number
        if index is None:
            self._homeless[bucket] += number
            return
        index = max(index, self._next)
        add_to(self._other_counts, index, bucket, number)
        self._offsets.begin(index * self._slide, block)

    def _count_gaps(self, number: int, index: int | None) -> None:
        self.totals[SOURCE_GAP] += number
        if index is None:
            self._homeless[SOURCE_GAP] += number
        else:
            index = max(index, self._next)
            add_to(self._other_counts, index, SOURCE_GAP, number)
        self._open_gaps[index] = self._open_gaps.get(index, 0) + number

    def _newest_index(self) -> int | None:
        """The interval of the largest timestamp so far; None before the first."""
        if self._window is None:
            return 0
        return None if self._newest_us is None else self._newest_us // self._window.slide_us

    def _panes_of(self, index: int) -> range:
        return range(index * self._slide, index * self._slide + self._size)

    def _occupied(self, upto: int) -> list[int]:
        """The intervals in [next, upto) that have rows or counts, ascending."""
        found = {index for index in self._other_counts if index < upto}
        for pane in self._pane_counts:
            first = -((self._size - 1 - pane) // self._slide)
            found.update(range(max(first, self._next), min(pane // self._slide + 1, upto)))
        return sorted(found)

    def _close(self, upto: int) -> None:
        if upto <= self._next:
            return
        self._next = upto
        floor = upto * self._slide
        self._panes.drop_below(floor)
        self._pane_counts = {pane: count for pane, count in self._pane_counts.items() if pane >= floor}
        self._offsets.close_below(floor)
        self._other_counts = {index: count for index, count in self._other_counts.items() if index >= upto}
        self._open_gaps = {i: number for i, number in self._open_gaps.items() if i is None or i >= upto}

    def _sample(self, reason: str) -> None:
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(reason)

    def _note(self, parsed: Parsed) -> None:
        self.field_errors += parsed.field_errors
        self.replaced += parsed.replaced
        self.samples += parsed.samples[: max(0, SAMPLES_MAX - len(self.samples))]


def _source(block: Block) -> SourceId | str:
    return block.position.key[:2] if block.position is not None else block.source

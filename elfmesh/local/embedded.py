"""The embedded engine: reads logs and returns the rows of every interval, in one process without a network.

All other results are compared with this engine. Therefore it uses the parsers, worker, panes and query of an
agent without shortcuts. It never closes an interval before the end of the input, so no record is late, and it
accepts timestamps in the future.

Rows of a plain projection (no aggregate, no window, no ORDER BY, no DISTINCT) need no state. They are
returned block by block in the order of the input. All other statements yield one table per interval.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt import finish_blocks
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.records import (
    BROKEN,
    BUCKETS,
    FILTERED,
    FUNCTION_ERROR,
    PARSE_ERROR,
    ResultRecord,
    counts_dict,
)
from elfmesh.errors import UsageError
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.memory import give_back
from elfmesh.ingest.parsers import StreamFormat, discover_columns
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.worker.beginning import SharedWorkerState
from elfmesh.ingest.worker.problems import SAMPLES_MAX
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.local.live_windows import LiveWindows
from elfmesh.local.log_input import LogInput
from elfmesh.local.named_logs import Logs, logs_of
from elfmesh.local.parquet_input import PARQUET, parquet_tables
from elfmesh.local.run_groups import shown
from elfmesh.local.side_by_side import default_threads
from elfmesh.local.time_range import TimeRange
from elfmesh.ql import Query, Statement, parse
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.ql.functions.compiler import Compiler
from elfmesh.ql.values.growth import TooLarge
from elfmesh.ql.values.intervals import intervals_as_text
from elfmesh.storage.spill import SpillStore
from elfmesh.text import suggest

MEMORY_BYTES = 16_000_000
"""Default memory for aggregates; a run then takes 130 to 155 MB in total."""

GIVE_BACK_BLOCKS = 64
"""Number of blocks after which freed memory is returned to the system."""

REMEDY = "Make room there, name another directory with TMPDIR, or raise --memory."
"""Hint for users of `elf run` if temporary files cannot be written."""


class LogRun(LogInput):
    """Run of one statement over logs.

    Args:
        statement: parsed statement. Unless `streams` contains its stream, its only stream refers to the given
            logs.
        paths: files, plain or compressed; "-" is standard input.
        format: as in `--format`, or a format with all its settings.
        sample: number of records to read; None: all.
        stdin: stream for "-".
        on_bytes: called with the number of bytes whenever bytes were read from a file.
        memory_bytes: memory for aggregates; larger state is spilled to files in `spill_dir`.
        spill_dir: directory of spill files; None: the system's directory for temporary files.
        streams: logs of each stream by name; `paths` and `format` are then ignored.
        lookups: tables that the statement may join.
        jobs: results that the statement may read.
        functions: evaluates the statement's Python functions; None: it must not have any.
        on_window: receives each window as soon as it is due; see `LiveWindows`.
        follow: the files are read on at their end, also across rotation, until it is set; None: to their end.
        threads: number of threads that parse and evaluate; the result does not depend on it. None: one for
            each core. A further thread then aggregates. With 1, one thread does everything.
        tables: tables of streams that have no logs, by name.
        times: only records of this range are input; the results of `jobs` are not limited.

    Raises:
        ConfigError: the format is unknown.
        QueryError: a column is unknown.
        UsageError: the statement reads a stream without logs.
    """

    def __init__(
        self,
        statement: Statement,
        paths: Sequence[str],
        *,
        format: str | StreamFormat = "auto",
        sample: int | None = None,
        stdin: BinaryIO | None = None,
        on_bytes: Callable[[int], None] | None = None,
        memory_bytes: int = MEMORY_BYTES,
        spill_dir: Path | None = None,
        streams: Mapping[str, Logs] | None = None,
        lookups: LookupSource | None = None,
        jobs: JobRows | None = None,
        functions: FunctionSource | None = None,
        on_window: Callable[[IntervalResult], None] | None = None,
        follow: threading.Event | None = None,
        threads: int | None = None,
        tables: Mapping[str, pa.Table] | None = None,
        times: TimeRange | None = None,
    ) -> None:
        if statement.functions and functions is None:
            raise UsageError(
                "the query defines Python functions, which are disabled",
                hint="Add --python if you trust the query. `elf run` does not check signatures.",
            )
        self._functions = functions
        self._on_window, self.live = on_window, LiveWindows()
        self._lookups = lookups or LookupTables({})
        self._memory_bytes = memory_bytes
        self._spill_dir = spill_dir
        self._began = time.monotonic()
        jobs = jobs or JobRows()
        if isinstance(format, str):
            format = StreamFormat(format, host=socket.gethostname())
        tables = tables or {}
        logs = logs_of(statement, {*jobs.check(statement), *tables}, streams or {}, (paths, format))
        files = parquet_tables(logs)
        if files and follow is not None:
            raise UsageError("--follow reads lines, and a Parquet file does not grow")
        super().__init__(
            statement,
            {stream: log for stream, log in logs.items() if stream not in files},
            jobs,
            sample=sample,
            stdin=stdin,
            on_bytes=on_bytes,
            follow=follow,
            eager=on_window is not None,
            threads=threads or default_threads(),
            tables={**tables, **files},
            times=times,
        )
        self.stats.formats |= {path: PARQUET for table in files.values() for path in table.paths}

    @property
    def streams(self) -> bool:
        """Whether the statement is a plain projection, whose rows come from `tables` instead of `results`."""
        plan = self.statement.plan
        plain = bool(plan.repeat) and not plan.order and not plan.distinct and plan.having is None
        return plain and not plan.offset and self.statement.window is None and self.statement.relation is None

    def results(self) -> Iterator[IntervalResult]:
        """Yield the intervals in order, after the whole input was read.

        Raises:
            DataError: the input does not have the declared format.
            QueryError: the types of the columns do not allow the query.
            RuntimeFailure: a file is missing or unreadable, or memory and disk are full.
        """
        with contextlib.closing(SpillStore(self._spill_dir, remedy=REMEDY)) as store:
            # with locks, because the prefetching thread may be the one that frees a tree
            budget = MemoryBudget(self._memory_bytes, store, new_lock=threading.Lock)
            yield from self._results(budget)

    def _results(self, budget: MemoryBudget) -> Iterator[IntervalResult]:
        if not self.statement.streams:
            yield self._answer(Query(self.statement), 0, (0,) * len(BUCKETS), {})
            return
        worker = self.read(budget)
        self._refuse_names_outside()
        if self.statement.window is None and not any(worker.totals):
            yield self._answer(worker.query, 0, (0,) * len(worker.totals), {})
        for each in shown(self.statement, worker.take(worker.end_index)):
            self.stats.broken += sum(each.counts[BROKEN:])
            yield self._answer(worker.query, each.index, each.counts, each.tables, each.completeness)
        self.stats.untaken = worker.query.untaken
        self._end()

    def answers(self) -> list[IntervalResult]:
        """Return all intervals; a plain projection is one interval. Raises as `results`."""
        if not self.streams:
            return list(self.results())
        tables = list(self.tables())
        return [IntervalResult(self.record(), pa.concat_tables(tables, promote_options="permissive"))]

    def read(self, budget: MemoryBudget) -> JobWorker:
        """Return a worker that has read all input and sealed nothing. Raises as `results`."""
        worker: JobWorker | None = None
        for number, each in enumerate(self._parsed(prepare=True), 1):
            worker = worker or self._worker(budget)
            parsed, block, records = each.parsed, each.block, each.records
            worker.feed(parsed, block, 0, records)
            if self._on_window is not None and self.statement.window is not None and parsed.rows:
                self._show_due(worker, block, records)
            records.release()
            if number % GIVE_BACK_BLOCKS == 0:
                give_back()
            if budget.over and budget.problem is not None:
                raise budget.problem
        if worker is None:
            worker = self._worker(budget)
        self._note(worker)
        return worker

    def _show_due(self, worker: JobWorker, block: Block, records: BlockRows) -> None:
        assert self._on_window is not None
        time_column = self.statement.time_of(block.stream or "")
        for interval in self.live.due(worker, records.times(time_column).least):
            tables = finish_blocks(interval.tables or {})
            result = self._answer(worker.query, interval.index, interval.counts, tables)
            self._on_window(replace(result, record=self.live.tentative(result.record)))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of a plain projection in the order of the input, as at least one table."""
        query: Query | None = None
        limit = self.statement.plan.limit
        for each in self._parsed(whole=limit is None):
            parsed = each.parsed
            query = query or Query(self.statement, functions=self._functions, carries=True)
            self._count(parsed.errors, parsed.samples)
            self.stats.field_errors += parsed.field_errors
            self.stats.replaced += parsed.replaced
            table, filtered, failed = project(query, parsed.batch)
            self.stats.filtered += filtered
            self.stats.function_errors += failed
            if limit is not None:
                table = table.slice(0, limit)
                limit -= table.num_rows
            yield table
            if limit == 0:
                break
        if query is None:
            yield pa.table({name: pa.nulls(0) for name in self.statement.columns})
        self._end()

    def record(self) -> ResultRecord:
        """Return the record of the one interval of a plain projection, after all its rows were read."""
        stats = self.stats
        rows = stats.records - stats.parse_errors - stats.filtered - stats.function_errors
        counts = dict.fromkeys(BUCKETS, 0) | {"contributed": rows, "filtered": stats.filtered}
        counts |= {"parse_error": stats.parse_errors, "function_error": stats.function_errors}
        return ResultRecord(job=self.statement.name, index=0, counts=counts)

    def _worker(self, budget: MemoryBudget) -> JobWorker:
        seed = int.from_bytes(os.urandom(8)) >> 1
        around = SharedWorkerState(budget=budget, seed=seed, lookup=self._lookups)
        return JobWorker(
            self.statement, around=around, max_future_us=None, strict=True, functions=self._functions
        )

    def _answer(
        self,
        query: Query,
        index: int,
        counts: tuple[int, ...],
        tables: Mapping[str, Reduced],
        completeness: float = 1.0,
    ) -> IntervalResult:
        window = self.statement.window
        bounds = None
        if window is not None:
            bounds = (index * window.slide_us, index * window.slide_us + window.size_us)
        record = ResultRecord(
            job=self.statement.name,
            index=index,
            start_us=bounds[0] if bounds else None,
            end_us=bounds[1] if bounds else None,
            counts=counts_dict(counts),
            state="FINAL" if completeness == 1.0 else "FINAL_PARTIAL",
            completeness=completeness,
        )
        latest = self._jobs.beside(query, record.start_us, record.end_us)
        return IntervalResult(record, query.finalise_parts({**tables, **latest}, bounds))

    def _end(self) -> None:
        self.stats.seconds = time.monotonic() - self._began
        if self._first is None or not self.stats.records or "json" not in self.stats.formats.values():
            return
        for stream, (_, formats) in self._logs.items():
            known = {"ts", self.statement.time_of(stream) if self.statement.window else "ts"}
            for name in self.statement.fields_of(stream):
                if name not in formats.schema.types and name not in known and not name.startswith("_"):
                    self.stats.unseen[name] = suggest(name, discover_columns(*self._first))

    def _refuse_names_outside(self) -> None:
        """Refuse names in subqueries that only a row of the outer query may have."""
        for each in self.statement.bare:
            paths, formats = self._logs.get(each.stream, ((), None))
            read_as_json = any(self.stats.formats.get(path) == "json" for path in paths)
            if read_as_json and formats is not None and each.path not in formats.schema.types:
                message = f"no record of {each.stream} has a value in {each.path}"
                raise self.statement.origin.error(message, each.at, each.remedy)

    def _count(self, errors: int, samples: Iterable[str]) -> None:
        self.stats.parse_errors += errors
        self.stats.samples += list(samples)[: SAMPLES_MAX - len(self.stats.samples)]

    def _note(self, worker: JobWorker) -> None:
        stats = self.stats
        stats.parse_errors = worker.totals[PARSE_ERROR]
        stats.filtered = worker.totals[FILTERED]
        stats.function_errors = worker.totals[FUNCTION_ERROR]
        stats.field_errors, stats.replaced = worker.problems.field_errors, worker.problems.replaced
        stats.samples = worker.problems.samples[:SAMPLES_MAX]
        stats.seconds = time.monotonic() - self._began


def project(query: Query, batch: pa.RecordBatch) -> tuple[pa.Table, int, int]:
    """Return the output rows of a plain projection for one batch, in its order.

    Also returns the number of records that WHERE dropped, and of records for which a Python function failed.
    """
    try:
        prepared = query.prepare(batch)
    except TooLarge:
        middle = batch.num_rows // 2
        if not middle:
            raise
        first, rest = (project(query, each) for each in (batch.slice(0, middle), batch.slice(middle)))
        return pa.concat_tables([first[0], rest[0]]), first[1] + rest[1], first[2] + rest[2]
    main = prepared.tables["main"]
    columns = {name: main.column(name) for name in main.schema.names}
    columns |= {name: values.take(columns[name]) for name, values in prepared.carried.items()}
    compiler = Compiler({name: array.type for name, array in columns.items()}, query.statement.origin)
    env = Env(columns, prepared.passed)
    outputs = query.statement.plan.outputs
    arrays = [compiler.compile(expr).array(env) for _, expr in outputs]
    table = intervals_as_text(pa.Table.from_arrays(arrays, names=[name for name, _ in outputs]))
    return table, batch.num_rows - prepared.passed - prepared.failed, prepared.failed


def answers(text: str, paths: Sequence[str] | str, format: str = "auto") -> list[IntervalResult]:
    """Return the intervals of a query over logs. Raises as `LogRun.results`."""
    logs = [paths] if isinstance(paths, str) else [str(path) for path in paths]
    return LogRun(parse(text), logs, format=format).answers()

"""The embedded engine: one process, no network. Logs in, the rows of every interval out.

It is the oracle for everything else, so it takes no short cuts of its own: the same parsers, worker, panes
and query as an agent. It never closes an interval before the end of the input, so nothing is ever late, and
it has no opinion on timestamps in the future.

Rows of a plain projection (no aggregate, no window, no ORDER BY, no DISTINCT) need no state: they are
handed on block by block in the order of the file. Everything else is one table per interval.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from elfmesh.agent.ahead import ahead
from elfmesh.agent.cli.run_sessions import shown
from elfmesh.agent.cli.run_stats import RunStats
from elfmesh.agent.disk.spill import SpillStore
from elfmesh.agent.interval_result import IntervalResult
from elfmesh.agent.job_rows import JobRows
from elfmesh.agent.lookups import LookupTables
from elfmesh.agent.memory import give_back
from elfmesh.agent.named_logs import Logs, logs_of
from elfmesh.agent.parsers import (
    AutoParser,
    Parsed,
    Parser,
    StreamFormat,
    discover_columns,
    found_columns,
)
from elfmesh.agent.parsers.framing import Framing
from elfmesh.agent.parsers.lines import Lines
from elfmesh.agent.sources.blocks import Block, is_compressed, is_pipe, read_blocks
from elfmesh.agent.sources.reader import parse_block
from elfmesh.agent.sources.records import cutter_for
from elfmesh.agent.worker.beginning import Surroundings
from elfmesh.agent.worker.worker import SAMPLES_MAX, JobWorker
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.ql import Query, Statement, expand, parse
from elfmesh.control.ql.compiler import Compiler
from elfmesh.control.ql.finalise_parts import Reduced
from elfmesh.control.ql.lookup import LookupSource
from elfmesh.control.ql.operand import Env
from elfmesh.control.ql.python_function import FunctionSource
from elfmesh.control.results.records import (
    BUCKETS,
    FILTERED,
    FUNCTION_ERROR,
    PARSE_ERROR,
    ResultRecord,
    counts_dict,
)
from elfmesh.errors import DataError, UsageError
from elfmesh.text import suggest

MEMORY_BYTES = 16_000_000
"""What aggregates may take unless somebody says otherwise: with it a run takes 130 to 155 MB."""

BLOCK_BYTES = 2 << 20
"""Smaller than an agent's, which has more jobs to share what a block costs: three are held at a time."""

GIVE_BACK_BLOCKS = 16
"""After so many blocks, freed memory goes back to the system."""

REMEDY = "Make room there, name another directory with TMPDIR, or raise --memory."
"""What the user of `elf run` can do where temporary files cannot be written."""


class LogRun:
    """One statement over some logs.

    Args:
        statement: parsed; unless `streams` names it, its one stream means the given logs.
        paths: files, plain or compressed; "-" is standard input.
        format: as in `--format`, or a format with all that can be said of it.
        sample: read only the first records; None: all.
        stdin: what "-" reads.
        on_bytes: called with the number of bytes taken from a file each time some were.
        memory_bytes: what aggregates may take in memory; what is beyond goes to files in `spill_dir`.
        spill_dir: where; None: the system's directory for temporary files.
        streams: the logs of each stream by name; then `paths` and `format` mean nothing.
        lookups: the tables that the statement may join.
        jobs: results that the statement may read.
        functions: evaluates the statement's Python functions; None: it must not have any.

    Raises:
        ConfigError: unknown format.
        QueryError: an unknown column.
        UsageError: a stream that is read and not named.
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
    ) -> None:
        if statement.functions and functions is None:
            raise UsageError(
                "the query brings Python functions along, and they are off",
                hint="Say --python if you trust its text; no signature is looked at here.",
            )
        self._functions = functions
        self._jobs = jobs or JobRows()
        self._lookups = lookups or LookupTables({})
        self.stats = RunStats()
        self._memory_bytes = memory_bytes
        self._spill_dir = spill_dir
        if isinstance(format, str):
            format = StreamFormat(format, host=socket.gethostname())
        self._logs = logs_of(statement, self._jobs.check(statement), streams or {}, (paths, format))
        self._left = sample
        self._stdin = stdin
        self._on_bytes = on_bytes
        self._checked: set[tuple[str, ...]] = set()
        self._first: tuple[Parser, bytes] | None = None
        self._began = time.monotonic()
        self.statement = statement
        for stream, (_, formats) in self._logs.items():
            schema = formats.static_schema
            if schema is not None:
                if self.statement.star:
                    self.statement = expand(statement, discover_columns(formats.parser(), b""))
                Query(self.statement).check_schema(schema, stream)

    @property
    def streams(self) -> bool:
        """Whether the rows come one block at a time, from `tables`; else they come from `results`."""
        plan = self.statement.plan
        plain = bool(plan.repeat) and not plan.order and not plan.distinct and plan.having is None
        return plain and not plan.offset and self.statement.window is None and self.statement.relation is None

    def results(self) -> Iterator[IntervalResult]:
        """The intervals in order; the whole input is read before the first comes.

        Raises:
            DataError: the input cannot be read as what it is declared to be.
            QueryError: the types of the columns make the query impossible.
            RuntimeFailure: a file is missing or must not be read; neither memory nor disk has room.
        """
        with contextlib.closing(SpillStore(self._spill_dir, remedy=REMEDY)) as store:
            # Locks, although one thread inserts: trees may end in the one that reads ahead.
            budget = MemoryBudget(self._memory_bytes, store, new_lock=threading.Lock)
            yield from self._results(budget)

    def _results(self, budget: MemoryBudget) -> Iterator[IntervalResult]:
        worker = self.read(budget)
        if self.statement.window is None and not any(worker.totals):
            yield self._answer(worker, 0, (0,) * len(worker.totals), {})
        for index, counts, tables in shown(self.statement, worker.take(worker.end_index)):
            yield self._answer(worker, index, counts, tables)
        self.stats.untaken = worker.query.untaken
        self._end()

    def answers(self) -> list[IntervalResult]:
        """All intervals, those of a plain projection as one; raises what `results` raises."""
        if not self.streams:
            return list(self.results())
        tables = list(self.tables())
        return [IntervalResult(self.record(), pa.concat_tables(tables, promote_options="permissive"))]

    def read(self, budget: MemoryBudget) -> JobWorker:
        """A worker that has read all the input and sealed nothing; raises what `results` raises."""
        worker: JobWorker | None = None
        for number, (parsed, block) in enumerate(self._parsed(), 1):
            worker = worker or self._worker(budget)
            worker.feed(parsed, block, 0)
            if number % GIVE_BACK_BLOCKS == 0:
                give_back()
            if budget.over and budget.problem is not None:
                raise budget.problem
        if worker is None:
            worker = self._worker(budget)
        self._note(worker)
        return worker

    def tables(self) -> Iterator[pa.Table]:
        """The rows of a plain projection in the order of the input: at least one table, perhaps empty."""
        query: Query | None = None
        limit = self.statement.plan.limit
        for parsed, _ in self._parsed():
            query = query or Query(self.statement, functions=self._functions)
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
        """The record of the one interval of a plain projection, once all its rows are through."""
        stats = self.stats
        rows = stats.records - stats.parse_errors - stats.filtered - stats.function_errors
        counts = dict.fromkeys(BUCKETS, 0) | {"contributed": rows, "filtered": stats.filtered}
        counts |= {"parse_error": stats.parse_errors, "function_error": stats.function_errors}
        return ResultRecord(job=self.statement.name, index=0, counts=counts)

    def _worker(self, budget: MemoryBudget) -> JobWorker:
        around = Surroundings(budget=budget, seed=secrets.randbits(63), lookup=self._lookups)
        return JobWorker(
            self.statement, around=around, max_future_us=None, strict=True, functions=self._functions
        )

    def _answer(
        self, worker: JobWorker, index: int, counts: tuple[int, ...], tables: Mapping[str, Reduced]
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
        )
        latest = self._jobs.beside(worker.query, record.start_us, record.end_us)
        return IntervalResult(record, worker.query.finalise_parts({**tables, **latest}, bounds))

    def _parsed(self) -> Iterator[tuple[Parsed, Block]]:
        """All parsed blocks, the next one being read and parsed meanwhile."""
        # A pipe is read by whoever waits for it: a thread that waits for ever could not be ended.
        waits = any(is_pipe(path) for paths, _ in self._logs.values() for path in paths)
        items = self._parse_all() if waits else ahead(self._parse_all())
        with contextlib.closing(items):
            told = 0
            for parsed, block, bytes_read in items:
                if self._on_bytes is not None:
                    self._on_bytes(bytes_read - told)
                told = bytes_read
                self.stats.records += parsed.lines
                yield parsed, block

    def _parse_all(self) -> Generator[tuple[Parsed, Block, int]]:
        """Every block parsed, and how many bytes were taken from the files until then."""
        taken = 0

        def count(more: int) -> None:
            nonlocal taken
            taken += more

        for parsed, block in self._jobs.blocks(self.statement):
            yield parsed, block, taken
        logs = [(stream, path, form) for stream, (paths, form) in self._logs.items() for path in paths]
        for stream, path, formats in logs:
            parser, blocks = self._opened(path, formats, count)
            with contextlib.closing(blocks) as source:
                for block in source:
                    wanted = block if self._left is None else self._sampled(block, formats.framing)
                    wanted = replace(wanted, stream=stream)
                    if self._first is None:
                        self._expand(parser, wanted)
                    parsed = parse_block(parser, wanted, self.statement.fields_of(stream))
                    self._check(parser, stream)
                    self._say_format(parser, path, parsed)
                    yield parsed, wanted, taken
                    if self._left == 0:
                        return

    def _opened(
        self, path: str, formats: StreamFormat, count: Callable[[int], None]
    ) -> tuple[Parser, Generator[Block]]:
        """The parser of a log, and its blocks."""
        cutter, stdin = cutter_for(formats.framing), self._stdin
        blocks = read_blocks(path, block_bytes=BLOCK_BYTES, new_cutter=cutter, stdin=stdin, on_bytes=count)
        return formats.parser(path), ahead(blocks) if is_compressed(path) else blocks

    def _sampled(self, block: Block, framing: Framing | None) -> Block:
        """The part of a block that the sample still wants."""
        assert self._left is not None
        lines = Lines(block.data)
        lines = lines if framing is None else framing.merge(lines)
        wanted = min(self._left, len(lines))
        self._left -= wanted
        end = int(lines.ends[wanted - 1]) if wanted else 0
        return Block(
            lines.data[:end], block.source, overlong=block.overlong, overlong_sample=block.overlong_sample
        )

    def _say_format(self, parser: Parser, path: str, parsed: Parsed) -> None:
        if path in self.stats.formats:
            return
        name = parser.chosen if isinstance(parser, AutoParser) else parser.name
        if not name and parsed.lines:
            sample = parsed.samples[0] if parsed.samples else ""
            raise DataError(
                "the format of the log cannot be told from its first lines"
                + (f" ({sample})" if sample else ""),
                where=path,
                hint="Name it: --format raw takes any line, regex:'(?P<level>\\w+)' cuts columns out of it.",
            )
        if name:
            self.stats.formats[path] = name

    def _end(self) -> None:
        """Say how long it took, and which fields turned out to be nowhere."""
        self.stats.seconds = time.monotonic() - self._began
        if self._first is None or not self.stats.records or "json" not in self.stats.formats.values():
            return
        for stream, (_, formats) in self._logs.items():
            known = {"ts", self.statement.time_of(stream) if self.statement.window else "ts"}
            for name in self.statement.fields_of(stream):
                if name not in formats.schema.types and name not in known and not name.startswith("_"):
                    self.stats.unseen[name] = suggest(name, discover_columns(*self._first))

    def _expand(self, parser: Parser, block: Block) -> None:
        self._first = (parser, block.data)
        if self.statement.star:
            self.statement = expand(self.statement, discover_columns(parser, block.data))

    def _check(self, parser: Parser, stream: str) -> None:
        """Refuse columns that the file turns out not to have (a csv header, the format `auto` chose)."""
        names = found_columns(parser)
        if names is None or (stream, *names) in self._checked:
            return
        self._checked.add((stream, *names))
        Query(self.statement).check_schema(pa.schema([(name, pa.string()) for name in names]), stream)

    def _count(self, errors: int, samples: Iterable[str]) -> None:
        self.stats.parse_errors += errors
        self.stats.samples += list(samples)[: SAMPLES_MAX - len(self.stats.samples)]

    def _note(self, worker: JobWorker) -> None:
        stats = self.stats
        stats.parse_errors = worker.totals[PARSE_ERROR]
        stats.filtered = worker.totals[FILTERED]
        stats.function_errors = worker.totals[FUNCTION_ERROR]
        stats.field_errors, stats.replaced = worker.field_errors, worker.replaced
        stats.samples = worker.samples[:SAMPLES_MAX]
        stats.seconds = time.monotonic() - self._began


def project(query: Query, batch: pa.RecordBatch) -> tuple[pa.Table, int, int]:
    """The output rows of a plain projection for one batch, in its order, and what is not among them.

    Returns:
        The rows, how many records WHERE dropped, and of how many a Python function made nothing.
    """
    prepared = query.prepare(batch)
    main = prepared.tables["main"]
    columns = {name: main.column(name) for name in main.schema.names}
    compiler = Compiler({name: array.type for name, array in columns.items()}, query.statement.origin)
    env = Env(columns, prepared.passed)
    outputs = query.statement.plan.outputs
    arrays = [compiler.compile(expr).array(env) for _, expr in outputs]
    table = pa.Table.from_arrays(arrays, names=[name for name, _ in outputs])
    return table, batch.num_rows - prepared.passed - prepared.failed, prepared.failed


def run(text: str, paths: Sequence[str] | str, format: str = "auto") -> list[IntervalResult]:
    """Run one query over some logs.

    Args:
        text: ELF-QL; any name after FROM means the given logs.
        paths: files, plain or compressed.
        format: as in `elf run --format`.

    Returns:
        One result per interval, in order; one with `record.start_us` None for a query without a window.
        `table` is a pyarrow table.

    Raises:
        QueryError: wrong query, unknown column.
        DataError: the input is damaged or of another format.
        RuntimeFailure: a file is missing or must not be read.
    """
    logs = [paths] if isinstance(paths, str) else [str(path) for path in paths]
    return LogRun(parse(text), logs, format=format).answers()

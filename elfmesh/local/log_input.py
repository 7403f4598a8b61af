"""Reads logs as parsed blocks in order, for `elf run`.

The module determines what only a log can tell: its format and its columns. `SELECT *` means these columns,
and a query must not use others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.errors import DataError, QueryError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.parsers import (
    AutoParser,
    Parsed,
    Parser,
    StreamFormat,
    discover_columns,
    found_columns,
    static_schema,
)
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.sniff import bare_csv_names, unreadable
from elfmesh.ingest.sources.bad_lines import newlines
from elfmesh.ingest.sources.blocks import Block, is_compressed, is_pipe, read_blocks
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.records import cutter_for
from elfmesh.local.log_source import LogSource, ReadBlock, Turn
from elfmesh.local.named_logs import Logs, declared_columns
from elfmesh.local.prefetch import ahead
from elfmesh.local.run_stats import RunStats
from elfmesh.local.side_by_side import side_by_side
from elfmesh.local.table_rows import StreamTable, table_blocks, with_columns
from elfmesh.local.time_range import RangeFilter, TimeRange
from elfmesh.ql import Query, Statement, declare, expand
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.plan.impossible import Doubts
from elfmesh.ql.plan.windows import TIME_COLUMN

BLOCK_BYTES = 2 << 20
"""Smaller than an agent's block, which several jobs share; three blocks are in memory at a time."""

BARE_CSV = "A csv file without a header needs names for its columns: --format csv:{}."


class LogInput:
    """Input of a statement: the results that it reads (`jobs`), its tables, then all logs.

    `sample` limits the number of records. The columns of `*` are added to `statement` when they are known.
    `stats` describes the input read so far. With `follow`, the files are read on at their end, also across
    rotation, until it is set. If `eager`, a block is what a pipe has at the time. Only records of `times` are
    input.
    """

    def __init__(
        self,
        statement: Statement,
        logs: Mapping[str, Logs],
        jobs: JobRows,
        *,
        sample: int | None = None,
        stdin: BinaryIO | None = None,
        on_bytes: Callable[[int], None] | None = None,
        follow: threading.Event | None = None,
        eager: bool = False,
        threads: int = 1,
        tables: Mapping[str, StreamTable] | None = None,
        times: TimeRange | None = None,
    ) -> None:
        tables = tables or {}
        columns = declared_columns(logs) | {name: tuple(table.schema.names) for name, table in tables.items()}
        self.statement = with_columns(declare(statement, columns), tables)
        self.stats = RunStats()
        self._logs = logs
        self._jobs, self._tables = jobs, tables
        self._left = sample
        self._taken = 0
        self._stdin = stdin
        self._on_bytes = on_bytes
        self._follow, self._eager = follow, eager
        self._range = None if times is None or times.is_all else RangeFilter(times)
        # The waiting thread itself reads a pipe, because another thread that waits forever could not be
        # stopped.
        waits = follow is not None or any(is_pipe(path) for paths, _ in logs.values() for path in paths)
        self._threads = 1 if waits else threads
        self._doubts: dict[str, Doubts] = {}
        self._thread = threading.local()
        self._checked: set[tuple[str, ...]] = set()
        self._first: tuple[Parser, bytes] | None = None
        for stream, (_, formats) in logs.items():
            if formats.static_schema is not None:
                self._list(stream, formats.parser(), b"")
        if not self.statement.star:
            self._check_static()

    def _parsed(self, *, whole: bool = True, prepare: bool = False) -> Iterator[ReadBlock]:
        """Yield each parsed block. Without `whole`, `stats` describes no block before it is requested.

        If `prepare`, the threads that parse a block also evaluate the statement's filters and expressions.
        """
        blocks = self._parse_all(prepare=prepare)
        items = ahead(blocks) if whole and self._threads > 1 else blocks
        with contextlib.closing(items):
            notified = 0
            for each in items:
                if self._on_bytes is not None:
                    self._on_bytes(each.bytes_read - notified)
                notified = each.bytes_read
                self.stats.records += each.parsed.lines
                yield each
        if self._range is not None:
            self.stats.outside, undated = self._range.outside, self._range.undated
            self.stats.undated += undated
            self._range.check(list(dict.fromkeys(map(self._time, self.statement.streams))))

    def _parse_all(self, *, prepare: bool = False) -> Generator[ReadBlock]:
        for parsed, block in self._jobs.blocks(self.statement):
            yield read_block(parsed, block)
        for whole, block, nbytes in table_blocks(self.statement.streams, self._tables, self._columns):
            self._taken += nbytes
            stream = block.stream or ""
            each = read_block(self._within(self._first_rows(whole), stream), block, self._taken)
            self._inspect(each.records, block, stream)
            yield each
            if self._left == 0:
                return
        evaluate = self._evaluated if prepare and self._range is None else None
        with (
            contextlib.closing(self._turns()) as turns,
            contextlib.closing(self._rows_of(turns, evaluate)) as rows,
        ):
            for turn, whole in rows:
                stream, parser = turn.source.stream, turn.source.parser
                self._check(parser, stream)
                parsed = self._within(whole, stream)
                self._say_format(parser, turn.source.path, parsed, turn.block.data)
                each = read_block(parsed, turn.block, turn.bytes_read, turn.records)
                self._inspect(each.records, turn.block, stream)
                yield each
                if self._left == 0:
                    return

    def _turns(self) -> Generator[Turn]:
        def add(more: int) -> None:
            self._taken += more

        with contextlib.closing(self._read(add)) as read:
            for source, block in read:
                wanted = block if self._left is None else self._sampled(block, source.formats.framing)
                yield Turn(source, replace(wanted, stream=source.stream), source.lines, self._taken)
                source.lines += newlines(block.data) + block.overlong

    def _rows_of(
        self, turns: Iterator[Turn], evaluate: Callable[[Parsed, str], BlockRows | None] | None
    ) -> Generator[tuple[Turn, Parsed]]:
        # a sample is cut by the number of records of the blocks before
        if self._threads > 1 and self._left is None:
            yield from side_by_side(turns, self._threads, self._fields, self._parse, evaluate)
            return
        for turn in turns:
            yield turn, self._parse(turn)

    def _evaluated(self, parsed: Parsed, stream: str) -> BlockRows | None:
        """Return the rows of a block with the values that the statement needs of them; for any thread.

        Returns None if a value needs more than the block: a lookup table, or a Python function.
        """
        if self.statement.functions or self.statement.joined:
            return None
        if (query := getattr(self._thread, "query", None)) is None:
            query = self._thread.query = Query(self.statement)
        records = BlockRows(parsed.arrays, parsed.rows)
        query.prepare(records, stream)
        return records

    def _fields(self, stream: str) -> Sequence[str] | None:
        """Return the columns to parse of a stream; None while `*` may be unknown."""
        return None if self._first is None else self._columns(stream)

    def _columns(self, stream: str) -> Sequence[str]:
        """Return the columns to read of a stream: those of the statement, and the time for the range."""
        fields = self.statement.fields_of(stream)
        return fields if self._range is None else tuple(dict.fromkeys((*fields, self._time(stream))))

    def _time(self, stream: str) -> str:
        return TIME_COLUMN if self.statement.window is None else self.statement.time_of(stream)

    def _within(self, parsed: Parsed, stream: str) -> Parsed:
        if self._range is None:
            return parsed
        return self._range.within(parsed, self._time(stream), self.statement.fields_of(stream))

    def _parse(self, turn: Turn) -> Parsed:
        stream, parser = turn.source.stream, turn.source.parser
        if self._first is None:
            self._expand(stream, parser, turn.block)
        return parse_block(parser, turn.block, self._columns(stream), turn.lines)

    def _read(self, count: Callable[[int], None]) -> Generator[tuple[LogSource, Block]]:
        logs = [(stream, path, form) for stream, (paths, form) in self._logs.items() for path in paths]
        if self._follow is not None:
            from elfmesh.local.following import follow

            yield from follow(logs, self._follow, BLOCK_BYTES, self.stats.gaps.append)
            return
        for stream, path, formats in logs:
            parser, blocks = self._opened(path, formats, count)
            source = LogSource(stream, path, formats, parser)
            with contextlib.closing(blocks) as opened:
                for block in opened:
                    yield source, block

    def _opened(
        self, path: str, formats: StreamFormat, count: Callable[[int], None]
    ) -> tuple[Parser, Generator[Block]]:
        cutter, stdin = cutter_for(formats.framing), self._stdin
        blocks = read_blocks(
            path, block_bytes=BLOCK_BYTES, new_cutter=cutter, stdin=stdin, on_bytes=count, eager=self._eager
        )
        return formats.parser(path), ahead(blocks) if self._threads > 1 and is_compressed(path) else blocks

    def _first_rows(self, parsed: Parsed) -> Parsed:
        """Return the rows of a table's block that the sample still wants."""
        if self._left is None:
            return parsed
        wanted = min(self._left, parsed.rows)
        self._left -= wanted
        arrays = {name: array.slice(0, wanted) for name, array in parsed.arrays.items()}
        return replace(parsed, arrays=arrays, rows=wanted, lines=wanted)

    def _sampled(self, block: Block, framing: Framing | None) -> Block:
        assert self._left is not None
        lines = Lines(block.data)
        lines = lines if framing is None else framing.merge(lines)
        wanted = min(self._left, len(lines))
        self._left -= wanted
        end = int(lines.ends[wanted - 1]) if wanted else 0
        return Block(
            lines.data[:end], block.source, overlong=block.overlong, overlong_sample=block.overlong_sample
        )

    def _say_format(self, parser: Parser, path: str, parsed: Parsed, text: bytes) -> None:
        if path in self.stats.formats:
            return
        name = parser.chosen if isinstance(parser, AutoParser) else parser.name
        if name in ("", "json") and parsed.lines and (foreign := unreadable(path, text)) is not None:
            raise foreign
        if not name and parsed.lines:
            sample = parsed.samples[0] if parsed.samples else ""
            hint = "Specify it: --format raw accepts any line, regex:'(?P<level>\\w+)' extracts columns."
            if isinstance(parser, AutoParser) and parser.candidates:
                hint = f"Name it: {' or '.join(f'--format {name}' for name in parser.candidates)}."
            elif names := bare_csv_names(text):
                hint = BARE_CSV.format(names)
            raise DataError(
                "the format of the log cannot be told from its first lines"
                + (f" ({sample})" if sample else ""),
                where=path,
                hint=hint,
            )
        if name:
            self.stats.formats[path] = name

    def _expand(self, stream: str, parser: Parser, block: Block) -> None:
        self._first = (parser, block.data)
        if not self.statement.star:
            return
        self._list(stream, parser, block.data)
        for other, (paths, formats) in self._logs.items():
            if self.statement.star and other != stream and paths and formats.static_schema is None:
                if is_pipe(paths[0]):
                    raise DataError(
                        "* needs the columns of the log before it is read", where=paths[0],
                        hint="Name the fields after SELECT, or give a file.",
                    )  # fmt: skip
                parser, blocks = self._opened(paths[0], formats, lambda _: None)
                with contextlib.closing(blocks) as source:
                    self._list(other, parser, next((block.data for block in source), b""))
        self._check_static()

    def _list(self, stream: str, parser: Parser, data: bytes) -> None:
        if self.statement.star:
            self.statement = expand(self.statement, discover_columns(parser, data), stream)

    def _check_static(self) -> None:
        for stream, (_, formats) in self._logs.items():
            if formats.static_schema is not None:
                self._check_types(formats.static_schema, stream)

    def _check(self, parser: Parser, stream: str) -> None:
        """Refuse columns that a file does not have, by its CSV header or its detected format."""
        names = found_columns(parser)
        if names is None or (stream, *names) in self._checked:
            return
        self._checked.add((stream, *names))
        schema = None
        if isinstance(parser, AutoParser):
            schema = static_schema(parser.chosen)
        try:
            self._check_types(schema or pa.schema([(name, pa.string()) for name in names]), stream)
        except QueryError as error:
            text = self._first[1] if self._first is not None else b""
            if parser.name == "csv" and (bare := bare_csv_names(text)):
                error.hint = f"The first line is taken for the header. {BARE_CSV.format(bare)}"
            raise

    def _check_types(self, schema: pa.Schema, stream: str) -> None:
        query = Query(self.statement)
        query.check_schema(schema, stream)
        query.check_constants(schema, stream)

    def _inspect(self, rows: BlockRows, block: Block, stream: str) -> None:
        """Record unreadable timestamps, and comparisons that the types of a block make impossible."""
        doubts = self._doubts.get(stream)
        if doubts is None:
            doubts = self._doubts[stream] = Query(self.statement).doubts(stream)
        if self.statement.window is None and "ts" in self.statement.fields_of(stream):
            times = rows.column("ts")
            self.stats.undated += rows.rows if times is None else times.null_count
        self.stats.doubts += doubts.found(rows.column, block.source)


def read_block(
    parsed: Parsed, block: Block, bytes_read: int = 0, records: BlockRows | None = None
) -> ReadBlock:
    """Return a parsed block; without `records`, no value of its rows is computed yet."""
    rows = BlockRows(parsed.arrays, parsed.rows) if records is None else records
    return ReadBlock(parsed, block, bytes_read, rows)

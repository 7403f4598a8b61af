"""Computes a task's share of a query over history, as an agent does over its logs.

Runs on executors. A share is a run of the embedded engine that stops before the last step and encodes its
intervals like an agent's contributions.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.cbt import encode_parts
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.control.jobs.records import NOT_COUNTED, counts_dict
from elfmesh.errors import ElfError
from elfmesh.ingest.functions.evaluator import local_evaluator
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.parsers import Parsed, Parser, StreamFormat
from elfmesh.ingest.sources.blocks import Block, LineCutter, read_blocks
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.records import cutter_for
from elfmesh.local.embedded import LogRun
from elfmesh.local.log_input import BLOCK_BYTES, read_block
from elfmesh.local.log_source import ReadBlock
from elfmesh.ql import Statement
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.spark_bridge.history.inputs import ARCHIVE, FilePiece, check_headless, head_of
from elfmesh.spark_bridge.history.plan import CONTRIBUTION, Task, pack_error
from elfmesh.storage.spill import SpillStore

ARCHIVED = ("_raw", "_path", "_host")
"""Columns of an archive of raw lines."""

Frames = Iterable[tuple[str, pa.RecordBatch]]
"""Batches of records as columns, each with its stream."""


class ShareRun(LogRun):
    """Run of one statement over pieces of logs, batches of tables (`frames`) and results."""

    def __init__(
        self,
        task: Task,
        pieces: Sequence[FilePiece],
        frames: Frames = (),
        *,
        results: bool = False,
        functions: FunctionSource | None = None,
    ) -> None:
        statement = task.statement
        self._pieces = {piece.key: piece for piece in pieces}
        self._frames, self._read_results = frames, results
        self._task = task
        self._parsers: dict[tuple[str, str, str], Parser] = {}
        self._formats: dict[tuple[str, str], StreamFormat] = {}
        streams: dict[str, tuple[Sequence[str], StreamFormat]] = {}
        for name in statement.streams:
            own = [piece.key for piece in pieces if piece.stream == name]
            streams[name] = (own, settled_format(task, name, task.host))
        super().__init__(
            statement,
            (),
            memory_bytes=task.memory_bytes,
            streams=streams,
            lookups=task.lookups,
            jobs=task.jobs,
            functions=functions,
            threads=1,  # an executor runs one task for each core
        )

    def _parse_all(self, *, prepare: bool = False) -> Generator[ReadBlock]:
        jobs = self._jobs
        if not self._read_results:
            self._jobs = JobRows.without_rows(jobs)
        try:
            yield from super()._parse_all()
        finally:
            self._jobs = jobs
        for stream, batch in self._frames:
            each = self._task.inputs.get(stream)
            if each is not None and each.kind == ARCHIVE:
                yield from self._archived(stream, batch)
                continue
            block = Block(b"", stream, stream=stream)
            yield read_block(_as_parsed(self.statement, stream, batch), block)

    def _archived(self, stream: str, batch: pa.RecordBatch) -> Iterator[ReadBlock]:
        raw, path, host = (batch.column(batch.schema.get_field_index(name)) for name in ARCHIVED)
        paths, hosts = path.to_pylist(), host.to_pylist()
        changes = [
            at for at in range(1, len(paths)) if (paths[at], hosts[at]) != (paths[at - 1], hosts[at - 1])
        ]
        for start, stop in itertools.pairwise([0, *changes, len(paths)] if paths else [0]):
            lines = raw.slice(start, stop - start).to_pylist()
            block = Block("".join(f"{line}\n" for line in lines).encode(), paths[start], stream=stream)
            parser = self._parser_of(stream, paths[start], hosts[start], block.data)
            parsed = parse_block(parser, block, self.statement.fields_of(stream))
            self._check(parser, stream)
            self._say_format(parser, paths[start], parsed, block.data)
            yield read_block(parsed, block)

    def _parser_of(self, stream: str, path: str, host: str, first: bytes) -> Parser:
        parser = self._parsers.get((stream, path, host))
        if parser is None:
            formats = self._formats.get((stream, host))
            if formats is None:
                formats = self._formats[stream, host] = settled_format(self._task, stream, host)
            parser = self._parsers[stream, path, host] = formats.parser(path)
            check_headless(parser, first, stream)
        return parser

    def _opened(
        self, path: str, formats: StreamFormat, count: Callable[[int], None]
    ) -> tuple[Parser, Generator[Block]]:
        piece = self._pieces[path]
        new_cutter = cutter_for(formats.framing)
        if piece.content is not None:
            content = io.BytesIO(piece.content)
            blocks = read_blocks("-", block_bytes=BLOCK_BYTES, new_cutter=new_cutter, stdin=content)
        elif piece.stop is None:
            blocks = read_blocks(piece.path, block_bytes=BLOCK_BYTES, new_cutter=new_cutter)
        else:
            head = head_of(piece.path) if piece.start else None
            return formats.parser(piece.path, head=head), _lines_of(piece, piece.start, piece.stop)
        return formats.parser(piece.path), blocks


def settled_format(task: Task, stream: str, host: str) -> StreamFormat:
    """Return the format of a stream with the types that its first records determine."""
    each = task.inputs.get(stream)
    formats = StreamFormat("json", host=host) if each is None else each.format(host)
    declared = formats.schema.declared
    types = task.types.get(stream, {})
    formats.schema.types |= {name: kind for name, kind in types.items() if name not in declared}
    return formats


def _lines_of(piece: FilePiece, start: int, stop: int) -> Generator[Block]:
    """Yield the lines of a plain file that begin in a range of its bytes."""
    cutter = LineCutter()
    with Path(piece.path).open("rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        offset = file.tell()
        while offset < stop and (chunk := file.read(min(BLOCK_BYTES, stop - offset))):
            offset += len(chunk)
            yield _block(piece, cutter, cutter.push(chunk))
        if cutter.pending:
            yield _block(piece, cutter, cutter.push(file.readline()))
        yield _block(piece, cutter, cutter.finish())


def _block(piece: FilePiece, cutter: LineCutter, data: bytes) -> Block:
    overlong, sample = cutter.take_overlong()
    return Block(data, piece.path, overlong=overlong, overlong_sample=sample)


def _as_parsed(statement: Statement, stream: str, batch: pa.RecordBatch) -> Parsed:
    rows = batch.num_rows
    arrays = {name: read_column(column_of(batch, name, rows)) for name in statement.fields_of(stream)}
    return Parsed(arrays, rows, rows, 0, [])


def column_of(batch: pa.RecordBatch, path: str, rows: int) -> pa.Array:
    """Return a column by its path, which may lead into structs and maps; nulls if it does not exist."""
    place = batch.schema.get_field_index(path)
    if place >= 0:
        return batch.column(place)
    name, *rest = path.split(".")
    place = batch.schema.get_field_index(name)
    column = batch.column(place) if place >= 0 else pa.nulls(rows)
    for part in rest:
        if pa.types.is_map(column.type):
            column = _values(column, part)
            continue
        known = pa.types.is_struct(column.type) and column.type.get_field_index(part) >= 0
        column = pc.struct_field(column, part) if known else pa.nulls(rows)
    return column


def _values(maps: pa.MapArray, key: str) -> pa.Array:
    try:
        return pc.map_lookup(maps, pa.scalar(key).cast(maps.type.key_type), "first")
    except pa.ArrowInvalid:  # the key cannot be cast to the type of the keys
        return pa.nulls(len(maps), maps.type.item_type)


def contribute(
    task: Task,
    pieces: Sequence[FilePiece],
    frames: Frames = (),
    *,
    results: bool = False,
    number: int = 0,
    newest: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the contributions of a share of history to every interval as batches of `CONTRIBUTION`.

    An error is a row. A plain projection keeps the order of the input by `number`, the position of this
    share. With `newest`, a last row without an interval contains the time of the newest record instead of the
    number. Reads the share once; holds `memory_bytes` of aggregates.
    """
    try:
        with contextlib.ExitStack() as stack:
            functions = None
            if task.python and task.statement.functions:
                functions = local_evaluator(task.statement)
                stack.callback(functions.close)
            run = ShareRun(task, pieces, frames, results=results, functions=functions)
            rows = _projected(run, number) if run.streams else _sealed(run, task, number, newest)
            for each in rows:
                yield pa.RecordBatch.from_pylist([each], CONTRIBUTION)
    except ElfError as error:
        row = {"interval_index": 0, "number": number, "error": pack_error(error)}
        yield pa.RecordBatch.from_pylist([row], CONTRIBUTION)


def _sealed(run: LogRun, task: Task, number: int, newest: bool) -> Iterator[dict[str, object]]:
    with contextlib.closing(SpillStore(Path(tempfile.gettempdir()))) as store:
        worker = run.read(MemoryBudget(task.memory_bytes, store, new_lock=threading.Lock))
        if task.statement.window is None and not any(worker.totals):
            yield _row(0, number, NOT_COUNTED, b"")
        for interval in worker.take(worker.end_index):
            if not task.statement.spans_intervals and not task.wants(interval.index):
                continue
            payload = b"" if interval.tables is None else encode_parts(interval.tables, 1)[0]
            yield _row(interval.index, number, interval.counts, payload)
        if newest and worker.times.newest_us is not None:
            yield _row(None, worker.times.newest_us, NOT_COUNTED, b"")


def _projected(run: LogRun, number: int) -> Iterator[dict[str, object]]:
    numbers = itertools.count(number << 32)
    for table in run.tables():
        yield _row(0, next(numbers), NOT_COUNTED, table_to_ipc(table))
    counts = run.record().counts
    yield _row(0, next(numbers), [counts[name] for name in counts_dict(NOT_COUNTED)], b"")


def _row(index: int | None, number: int, counts: Sequence[int], payload: bytes) -> dict[str, object]:
    return {"interval_index": index, "number": number, "counts": list(counts), "payload": payload}

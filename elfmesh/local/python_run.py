"""`elfmesh.run`: a query over files, file objects, tables or data frames, for Python programs.

The engine and the settings are those of `elf run`.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from elfmesh.api.client.result_interval import ResultInterval, html_of
from elfmesh.control.jobs.records import to_json
from elfmesh.errors import UsageError
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.stream_formats import run_format
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.local.embedded import MEMORY_BYTES, LogRun
from elfmesh.local.named_logs import Logs, declared_columns
from elfmesh.local.table_rows import is_table, table_of
from elfmesh.local.time_range import TimeRange
from elfmesh.ql import Statement, job_read, parse
from elfmesh.ql.expressions.python_function import FunctionSource
from elfmesh.ql.values.row_json import encode_json
from elfmesh.units import parse_size, parse_time, unix_us

METADATA = b"elf"
"""Key of the record in the metadata of a table."""

PathLike: TypeAlias = str | Path
PIPE = "-"


class RunResults(list[pa.Table]):
    """The tables of the intervals, in order.

    Example:
        >>> import elfmesh
        >>> results = elfmesh.run("SELECT product, kind FROM clicks LIMIT 1", "clicks.ndjson")
        >>> results.to_arrow().to_pylist()
        [{'product': 'lamp', 'kind': 'like'}]
    """

    @property
    def intervals(self) -> list[ResultInterval]:
        """The intervals with their records."""
        return [ResultInterval.of(json.loads(table.schema.metadata[METADATA]), table) for table in self]

    def to_arrow(self) -> pa.Table:
        """Return the rows of all intervals as one table; `interval_start` and `interval_end` come first."""
        found = []
        for each in self.intervals:
            table = each.to_arrow().replace_schema_metadata(None)
            if each.start is not None:
                bounds = {"interval_start": each.start, "interval_end": each.end}
                for at, (name, time) in enumerate(bounds.items()):
                    column = pa.repeat(pa.scalar(time, pa.timestamp("us", "UTC")), table.num_rows)
                    table = table.add_column(at, name, column)
            found.append(table)
        return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})

    def to_pandas(self) -> Any:
        """Return the rows of all intervals as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        return html_of(f"{len(self)} interval{'' if len(self) == 1 else 's'}", self.to_arrow())


def run(
    text: str,
    paths: Any = (),
    format: str = "auto",
    *,
    streams: Mapping[str, Any] | None = None,
    lookups: Mapping[str, Any] | None = None,
    multiline: str = "",
    ts: str = "",
    ts_format: str = "",
    timezone: str = "UTC",
    year: int | None = None,
    patterns: Mapping[str, str] | None = None,
    memory: str | int = MEMORY_BYTES,
    threads: int | None = None,
    sample: int | None = None,
    python: bool = False,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
) -> RunResults:
    """Run one query.

    Args:
        text: ELF-QL; unless `streams` is given, any name after FROM refers to `paths`.
        paths: one or several files of lines, plain or compressed; Parquet files; a file object of lines; a
            pyarrow table; or a data frame.
        format: as in `elf run --format`, for files.
        streams: what each stream of the query reads: as `paths`, or a pair of files and their format.
        lookups: for each table that the query joins as lookup.NAME: a file, a table or a data frame.
        multiline: rule that joins lines to records.
        ts: field with the event time; "" is that of the format.
        ts_format: pattern of the event time, in the letters of to_timestamp.
        timezone: time zone for timestamps that do not specify one.
        year: year for timestamps that do not specify one.
        patterns: Grok patterns by name.
        memory: memory for aggregates, as bytes or text such as "16 MB".
        threads: threads that parse; the rows do not depend on it.
        sample: number of records to read.
        python: run the Python functions of the query, in a separate process.
        start: time of the first records; text as of `elf run --from`, or a datetime with a time zone.
        end: time before which records end.

    Returns:
        A list with one pyarrow table per interval, in order, and with one table for a query without a window.
        Its `intervals` have the record of each one. `table.schema.metadata[b"elf"]` has it as JSON.

    Raises:
        QueryError: the query is wrong, or a column is unknown.
        DataError: the input is damaged or has another format.
        UsageError: an argument is wrong.
        RuntimeFailure: a file is missing or unreadable.

    Example:
        >>> import elfmesh
        >>> query = "SELECT product, COUNT(*) AS n FROM clicks GROUP BY product"
        >>> [table.to_pylist() for table in elfmesh.run(query, "clicks.ndjson")]
        [[{'product': 'lamp', 'n': 3}]]
    """
    lines: dict[str, Any] = {"multiline": multiline, "timezone": timezone, "year": year}
    lines |= {"ts": ts, "ts_format": ts_format, "patterns": dict(patterns or {})}
    inputs, times = _Inputs(lines), TimeRange(_time_us("start", start), _time_us("end", end))
    for name, value in (streams or {}).items():
        inputs.add(name, value, format)
    statement = parse(text, declared=inputs.declared)
    given = _given(statement, paths, streams)
    for name, value in given.items() if streams is None else ():
        inputs.add(name, value, format)
    size = parse_size(memory) if isinstance(memory, str) else memory
    options = {"sample": sample, "memory_bytes": size, "threads": threads, "times": times}
    return _evaluated(statement, inputs, lookups or {}, python, options)


def _evaluated(
    statement: Statement, inputs: _Inputs, lookups: Mapping[str, Any], python: bool, options: dict[str, Any]
) -> RunResults:
    with _functions_of(statement, python) as functions:
        ran = LogRun(
            statement, (), stdin=inputs.file, streams=inputs.logs, tables=inputs.tables,
            lookups=_lookups(lookups), functions=functions, **options,
        )  # fmt: skip
        return RunResults(map(_with_metadata, ran.answers()))


@contextlib.contextmanager
def _functions_of(statement: Statement, python: bool) -> Iterator[FunctionSource | None]:
    if not (python and statement.functions):
        yield None
        return
    from elfmesh.ingest.functions.evaluator import local_evaluator

    with contextlib.closing(local_evaluator(statement)) as functions:
        yield functions


def _time_us(name: str, value: datetime | str | None) -> int | None:
    if isinstance(value, str):
        value = parse_time(value, datetime.now(UTC), name)
    if value is not None and value.tzinfo is None:
        raise UsageError("a time without a time zone", where=name, hint="datetime(..., tzinfo=UTC)")
    return None if value is None else unix_us(value)


def _given(statement: Statement, paths: Any, streams: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the input of each stream. Raises UsageError if one has none."""
    if streams is None:
        if len(statement.streams) > 1:
            names = ", ".join(statement.streams)
            raise UsageError(f"the query reads several streams: {names}", hint="Give them as streams={...}.")
        return dict.fromkeys(statement.streams, paths)
    if not (isinstance(paths, Sequence) and not paths):
        raise UsageError("paths and streams exclude each other", hint="Name every input in streams.")
    for name in statement.streams:
        if name not in streams and not job_read(name):
            raise UsageError(f"the query reads {name}, and streams has {', '.join(streams) or 'nothing'}")
    return streams


class _Inputs:
    """Files, tables and the file object of a run, by stream."""

    def __init__(self, lines: Mapping[str, Any]) -> None:
        self._lines = lines
        self.logs: dict[str, Logs] = {}
        self.tables: dict[str, pa.Table] = {}
        self.file: BinaryIO | None = None

    @property
    def declared(self) -> dict[str, tuple[str, ...]]:
        """The columns of the tables, and of the streams whose formats declare them."""
        tables = {name: tuple(table.column_names) for name, table in self.tables.items()}
        return declared_columns(self.logs) | tables

    def add(self, name: str, value: Any, format: str) -> None:
        if is_table(value):
            self.tables[name] = table_of(value)
            return
        if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], Path):
            value, format = value
        spec = run_format(format, host=socket.gethostname(), **self._lines)
        if hasattr(value, "read"):
            if self.file is not None:
                raise UsageError("a query reads one file object", hint="Save the others to files.")
            self.file = value
            first = value.read(0)
            if isinstance(first, str):
                self.file = io.BytesIO(value.read().encode())
            self.logs[name] = ([PIPE], spec)
            return
        paths = [value] if isinstance(value, PathLike) else [*value] if isinstance(value, Sequence) else []
        if not paths or not all(isinstance(path, PathLike) for path in paths):
            hint = "Give paths, a file object, a pyarrow table or a data frame."
            raise UsageError(f"{name} has no input: {type(value).__name__}", hint=hint)
        self.logs[name] = ([str(path) for path in paths], spec)


def _lookups(given: Mapping[str, Any]) -> Any:
    tables = {name: table_of(value) for name, value in given.items() if is_table(value)}
    files = LookupTables(
        {name: StreamConfig(path=str(value)) for name, value in given.items() if name not in tables}
    )

    def source(name: str, columns: tuple[str, ...]) -> pa.Table:
        return tables[name].select(list(columns)) if name in tables else files(name, columns)

    return source


def _with_metadata(answer: IntervalResult) -> pa.Table:
    reported = to_json(answer.record, pa.table({}))
    del reported["rows"]
    table = answer.table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: encode_json(reported)})

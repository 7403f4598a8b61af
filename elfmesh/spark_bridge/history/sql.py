"""`spark_bridge.sql`: evaluates ELF-QL over history and returns DataFrames.

The driver inspects the beginning of a stream's files, so that all tasks use the same types for a JSON log:
those of the first records with a value, as in `elf run`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import DataError, QueryError, UsageError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ingest.parsers import discover_columns
from elfmesh.ingest.sources.blocks import read_blocks
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.records import cutter_for
from elfmesh.local.log_input import BLOCK_BYTES
from elfmesh.ql import Statement, expand, parse_many
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.plan.scope import IMPLICIT, NO_FROM
from elfmesh.ql.plan.statement import ONE, job_read
from elfmesh.spark_bridge.history.frames import History, frame_of
from elfmesh.spark_bridge.history.inputs import (
    ARCHIVE,
    PARQUET,
    RESULTS,
    SPLIT_BYTES,
    HistoryInput,
    check_headless,
    check_named,
    files_of,
    given_inputs,
)
from elfmesh.spark_bridge.history.plan import Declared, JoinedTables, Task
from elfmesh.spark_bridge.history.share import ShareRun
from elfmesh.spark_bridge.session import require_pyspark, results

ARCHIVED_ROWS = 10_000
"""Number of lines of an archive that are inspected for the types."""

LOOKED_AT = 64
"""Maximum number of files of a stream whose beginning is inspected for the types."""


def sql(
    spark: Any,
    text: str,
    streams: Mapping[str, Any],
    *,
    lookups: Mapping[str, Any] | None = None,
    python: bool = False,
    split_bytes: int = SPLIT_BYTES,
    source: str = "query",
    stream: bool = False,
    schema: str | None = None,
) -> Any:
    """Evaluate ELF-QL over history. Returns the rows of `elf run` over the same records as a DataFrame.

    Columns: interval_index, interval_start, interval_end (null without a window), then those of the query.
    The call reads the history once, as `spark.read.json` does to infer a schema. The executors cache the
    answer.

    Args:
        spark: a SparkSession, classic or Connect.
        text: a query or jobs; of several statements, the rows of the last one. A job may read earlier jobs.
        streams: input of each stream by name: ("PATH", "FORMAT"), "PATH,format=F,...", a dict of an agent's
            settings of a stream, or a DataFrame. A path may be a pattern or a directory. The formats are
            those of agents, `parquet`, and `elf` for results of a live job at an agent's address.
        lookups: tables that the text joins: a pyarrow Table, a DataFrame, or a path and a format.
        python: whether the Python functions of the text may run on the executors.
        split_bytes: size of a task's share of a plain file.
        source: name of the text in error messages.
        stream: return a streaming DataFrame over history that grows: files that appear under a path, or
            streaming DataFrames. The rows of an interval are emitted once, when the newest record is LATENESS
            past its end (output mode append); later records are dropped, and Spark counts them.
        schema: DDL of the query's columns, for a stream without history from which to infer them.

    Raises:
        QueryError: the text is wrong, a column is unknown, or the statement cannot be streamed.
        DataError: the history does not have the declared format.
        UsageError: a stream has no input.

    Example:
        >>> text = "SELECT product, COUNT(*) AS n FROM clicks GROUP BY product"
        >>> counts = spark_bridge.sql(spark, text, {"clicks": "clicks.ndjson"})
        >>> [(row.product, row.n) for row in counts.collect()]
        [('lamp', 3)]
    """
    if stream:
        return _streamed(
            spark, text, given_inputs(streams), given_lookups(lookups or {}), python, source, schema
        )
    history: History | None = None
    for each in histories(
        spark,
        text,
        given_inputs(streams),
        lookups=given_lookups(lookups or {}),
        python=python,
        split_bytes=split_bytes,
        source=source,
    ):
        if history is not None:
            history.close()
        history = each
    assert history is not None, "a text has a statement"
    return history.frame()


def _streamed(
    spark: Any,
    text: str,
    inputs: Mapping[str, HistoryInput],
    lookups: LookupSource,
    python: bool,
    source: str,
    schema: str | None,
) -> Any:
    from elfmesh.spark_bridge.history.streaming import check_streamable, stream_frame, stream_inputs

    require_pyspark()
    (statement, *more) = parse_many(text, source=source)
    if more:
        raise UsageError("a stream is one statement", hint="Give each its own DataFrame.")
    check_streamable(statement)
    given = None
    if schema is not None:
        from elfmesh.spark_bridge.conform import arrow_schema

        given = arrow_schema(spark.createDataFrame([], schema).schema)
    task = Task(text, 0, source, socket.gethostname(), python=python)
    task = prepared(spark, task, stream_inputs(inputs), lookups)
    return stream_frame(spark, task, lookups, given)


def histories(
    spark: Any,
    text: str,
    inputs: Mapping[str, HistoryInput],
    *,
    lookups: LookupSource | None = None,
    python: bool = False,
    split_bytes: int = SPLIT_BYTES,
    source: str = "query",
    only: tuple[int, int] | None = None,
) -> Iterator[History]:
    """Yield the answer of each statement, optionally of some intervals only. Raises as `sql`."""
    require_pyspark()
    declared = _declared(spark, inputs, socket.gethostname())
    statements = parse_many(text, source=source, declared=dict(declared))
    jobs = JobRows()
    for number, statement in enumerate(statements):
        _fetch(spark, statement, inputs, jobs)
        task = Task(
            text, number, source, socket.gethostname(), jobs=jobs, python=python, only=only, declared=declared
        )
        task = prepared(spark, task, inputs, lookups)
        history = History(spark, task, split_bytes=split_bytes)
        yield history
        jobs.begin(task.statement)
        if statement.job is not None and any(_reads(later, statement) for later in statements[number + 1 :]):
            for found in history.answers():
                jobs.add(task.statement, found)


def prepared(
    spark: Any, task: Task, inputs: Mapping[str, HistoryInput], lookups: LookupSource | None = None
) -> Task:
    """Return the task with its inputs, the columns of `*`, the types of fields and the joined tables."""
    statement = task.statement
    if not statement.streams:
        hint = "Add FROM stream, or run it without Spark: elf run."
        raise statement.origin.error(NO_FROM, statement.offset, hint)
    given = task.jobs.check(statement)
    inputs = {name: each for name, each in inputs.items() if each.kind != RESULTS}
    streams = [name for name in statement.streams if name not in given]
    if len(inputs) == 1 and len(streams) == 1:  # as in `elf run`, any name refers to the only log
        (only,) = inputs.values()
        inputs = {streams[0]: replace(only, stream=streams[0])}
    check_named(streams, inputs)
    if not task.declared and (statement.bare or statement.star):
        task = replace(task, declared=_declared(spark, {name: inputs[name] for name in streams}, task.host))
    statement = task.statement
    star: list[tuple[str, tuple[str, ...]]] = []
    for name in streams if statement.star else ():
        _, columns = _settled(spark, statement, inputs[name], task.host)
        if columns is not None:
            star.append((name, columns))
            statement = expand(statement, columns, name)
    types = {name: _settled(spark, statement, inputs[name], task.host)[0] for name in streams}
    kept = {name: each for name, each in inputs.items() if name in streams}
    task = replace(task, star=tuple(star), inputs=kept, types=types)
    task = replace(task, lookups=_tables(statement, lookups))
    if statement.functions and not task.python:
        raise UsageError(
            "the query defines Python functions, which are disabled",
            hint="Add --python (python=True) if you trust the query. Signatures are not checked here.",
        )
    refuse_members(statement)
    # errors that need no data are raised now
    ShareRun(task, (), functions=_NoTables() if task.python else None)
    return task


def refuse_members(statement: Statement) -> None:
    """Refuse SEALED with members as producers, because history does not name the member of a record."""
    seal = statement.plan.seal
    if seal is not None and seal.by is None and seal.how != ONE:
        problem = "history does not contain which member has read a punctuation"
        hint = "Name the producer: SEALED(... PRODUCERS n BY column ...), or run the job on agents."
        raise statement.origin.error(problem, seal.when.at, hint)


def _tables(statement: Statement, lookups: LookupSource | None) -> JoinedTables:
    found: dict[tuple[str, tuple[str, ...]], pa.Table] = {}
    for part in (statement, *statement.parts):
        for join in part.lookups:
            if lookups is None:
                raise UsageError(f"the lookup table {join.name} has no input")
            found[join.name, join.columns] = lookups(join.name, join.columns)
    return JoinedTables(found)


def given_lookups(given: Mapping[str, Any]) -> LookupSource:
    """Return the source of the tables that a caller passed by name."""
    tables: dict[str, pa.Table] = {}
    files = {}
    for name, value in given.items():
        if isinstance(value, pa.Table):
            tables[name] = value
        elif hasattr(value, "toArrow"):
            tables[name] = value.toArrow()
        else:
            files[name] = value
    from elfmesh.ingest.lookups import LookupTables

    others = LookupTables({name: each.config for name, each in given_inputs(files, "lookups").items()})

    def look(name: str, columns: tuple[str, ...]) -> pa.Table:
        if name not in tables:
            return others(name, columns)
        missing = [column for column in columns if column not in tables[name].column_names]
        if missing:
            raise DataError(f"has no column {missing[0]}", where=f"lookup {name}")
        return tables[name].select(list(columns))

    return look


class _NoTables:
    """Placeholder in the driver, where functions are never called."""

    def call(self, *_given: Any) -> Any:
        raise AssertionError("functions are called by tasks")


def _reads(later: Statement, statement: Statement) -> bool:
    assert statement.job is not None
    return statement.job.qualified in map(job_read, later.streams)


def _fetch(spark: Any, statement: Statement, inputs: Mapping[str, HistoryInput], jobs: JobRows) -> None:
    for name in statement.streams:
        job = job_read(name)
        given = inputs.get(job) or inputs.get(job.replace("/", "."))
        if not job or given is None:
            continue
        table = results(spark, job, api=given.config.path).toArrow()
        jobs.put(job, *_by_interval(table))


def _by_interval(table: pa.Table) -> tuple[tuple[str, ...], int, list[tuple[int, pa.Table]]]:
    columns = tuple(name for name in table.column_names[6:])
    table = table.sort_by("interval_index")
    starts = table.column("interval_start").cast(pa.int64())
    ends = table.column("interval_end").cast(pa.int64())
    size_us = pc.max(pc.subtract(ends, starts)).as_py() or 1
    found = [
        (start_us, table.filter(pc.equal(starts, start_us)).select(columns))
        for start_us in pc.unique(starts).to_pylist()
    ]
    return columns, size_us, found


def check_text(text: str, source: str, inputs: Mapping[str, HistoryInput]) -> None:
    """Raise QueryError for a text that no columns of a table make right, before Spark is started."""
    try:
        parse_many(text, source=source, declared=dict(_declared(None, _logs(inputs), "")))
    except QueryError:
        if all(each.kind != PARQUET for each in inputs.values()):
            raise


def _logs(inputs: Mapping[str, HistoryInput]) -> dict[str, HistoryInput]:
    return {name: each for name, each in inputs.items() if each.kind == "log"}


def _declared(spark: Any, inputs: Mapping[str, HistoryInput], host: str) -> Declared:
    found: dict[str, tuple[str, ...]] = {}
    for name, each in inputs.items():
        if each.kind in ("frame", PARQUET):
            found[name] = (*frame_of(spark, each).columns, *IMPLICIT)
        elif each.kind == "log" and (schema := each.format(host).static_schema) is not None:
            found[name] = tuple(schema.names)
    return tuple(found.items())


def _settled(
    spark: Any, statement: Statement, each: HistoryInput, host: str
) -> tuple[dict[str, pa.DataType], tuple[str, ...] | None]:
    if each.kind in ("frame", PARQUET):
        return {}, tuple(frame_of(spark, each).columns)
    if each.kind == ARCHIVE:
        return _settled_archive(spark, statement, each, host)
    if each.kind != "log":
        if statement.star:
            hint = "Name the fields after SELECT."
            raise statement.origin.error("SELECT * needs the columns of the log", statement.offset, hint)
        return {}, None
    formats = each.format(host)
    columns: tuple[str, ...] | None = None
    wanted: Sequence[str] = () if statement.star else statement.fields_of(each.stream)
    for path in files_of(each.config.path)[:LOOKED_AT]:
        parser = formats.parser(path)
        blocks = read_blocks(path, block_bytes=BLOCK_BYTES, new_cutter=cutter_for(formats.framing))
        block = next(blocks, None)
        blocks.close()
        if block is None:
            continue
        if columns is None:
            columns = discover_columns(parser, block.data)
        if wanted:
            parsed = parse_block(parser, block, wanted)
            for name in wanted:
                parsed.arrays[name]
        if all(name in formats.schema.types or name.startswith("_") for name in wanted):
            break
    return dict(formats.schema.types), columns


def _settled_archive(
    spark: Any, statement: Statement, each: HistoryInput, host: str
) -> tuple[dict[str, pa.DataType], tuple[str, ...]]:
    first = frame_of(spark, each).select("_raw").limit(ARCHIVED_ROWS).toArrow().column(0).to_pylist()
    data = "".join(f"{line}\n" for line in first if line is not None).encode()
    formats = each.format(host)
    parser = formats.parser(each.config.path)
    check_headless(parser, data, each.stream)
    columns = discover_columns(parser, data)
    if not statement.star:
        wanted = statement.fields_of(each.stream)
        parsed = parser.parse(data, wanted)
        for name in wanted:
            parsed.arrays[name]
    return dict(formats.schema.types), columns

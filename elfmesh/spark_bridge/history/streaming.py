"""Runs a query over growing history with Structured Streaming; the watermark delay includes LATENESS.

Each micro-batch contributes partials as a batch does. Spark's state store holds the partials of each open
interval, and emits its rows once (output mode append) when the newest record is LATENESS past its end. The
grouping column `at` is the start of an interval, and each share adds a row with the time of its newest
record. Therefore the delay of Spark's watermark is the size of the window plus LATENESS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from elfmesh.control.jobs import spark_types
from elfmesh.errors import UsageError
from elfmesh.local.embedded import LogRun
from elfmesh.ql import Statement
from elfmesh.ql.engine.lookup import LookupSource
from elfmesh.ql.plan.statement import ROWS, SEALED, SESSION, WITHIN, job_read
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.spark_bridge.history.finish import finish
from elfmesh.spark_bridge.history.frames import HEAD, frame_of, framed, result_schema, wanted
from elfmesh.spark_bridge.history.inputs import ARCHIVE, PARQUET, FilePiece, HistoryInput, files_of
from elfmesh.spark_bridge.history.plan import CONTRIBUTION, Task, unpack_error
from elfmesh.spark_bridge.history.share import ARCHIVED, contribute

PART_DDL = "at TIMESTAMP, interval_index BIGINT, number BIGINT, counts ARRAY<BIGINT>, payload BINARY"
PART = pa.schema([("at", spark_types.UTC), *[field for field in CONTRIBUTION if field.name != "error"]])
FILES_DDL = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
SAMPLE = 10_000
"""Number of records that are inspected for the types of the rows."""

MILLI = 1000


def stream_frame(
    spark: Any, task: Task, lookups: LookupSource | None, schema: pa.Schema | None = None
) -> Any:
    """Return a streaming DataFrame of the rows of every interval, emitted when the interval is closed.

    Without `schema`, the types of the query's columns come from the history that exists now.
    """
    statement = task.statement
    check_streamable(statement)
    if schema is None:
        schema = _learnt(task, lookups)
    columns = pa.schema([*HEAD, *(pa.field(each.name, spark_types.plain_type(each.type)) for each in schema)])
    window = statement.window
    assert window is not None
    lateness_us = statement.job.lateness_us if statement.job else 0
    delay = f"{-(-(window.size_us + lateness_us) // MILLI)} milliseconds"
    parts = [
        each.withWatermark("at", delay) for each in (_parts(spark, task, name) for name in statement.streams)
    ]
    together = parts[0]
    for each in parts[1:]:
        together = together.unionByName(each)
    from pyspark.sql import functions

    held = functions.collect_list(functions.struct("number", "counts", "payload")).alias("parts")
    closed = together.groupBy("at", "interval_index").agg(held)
    return closed.mapInArrow(partial(_closed, task.sent, columns), spark_types.ddl(columns))


SPANNING = {
    SESSION: "sessions", SEALED: "partitions of SEALED", ROWS: "windows of ROWS", WITHIN: "joins WITHIN",
}  # fmt: skip
"""What continues from one interval to the next, by kind of window."""


def check_streamable(statement: Statement) -> None:
    """Refuse statements that cannot be answered over unbounded input, with a hint how to rewrite them."""
    problem, hint = "", ""
    if statement.window is None:
        problem = "a stream has no end, so a query without a window never has an answer"
        hint = "Write EVERY '30 s' before AS, or GROUP BY TUMBLE(ts, INTERVAL '30' SECOND)."
    elif statement.spans_intervals:
        called = SPANNING[statement.window.kind]
        problem = f"{called} continue from one interval to the next, but Spark closes each interval alone"
        hint = "Run it over history as a batch, or as a job on agents."
    elif any(map(job_read, statement.streams)):
        problem = "a streaming query cannot read results of jobs"
        hint = "Run it as a batch, or read the results with readStream.format('elf') and join in Spark."
    if problem:
        raise statement.origin.error(problem, statement.offset, hint)


def _parts(spark: Any, task: Task, name: str) -> Any:
    each, own = task.inputs[name], replace(task.sent, stream=name)
    if each.kind in ("log", "remote"):
        files = spark.readStream.format("binaryFile").schema(FILES_DDL).load(each.config.path)
        return files.select("path", "content").mapInArrow(partial(_of_files, own), PART_DDL)
    frame = each.frame
    if frame is None:
        found = frame_of(spark, each)
        frame = spark.readStream.schema(found.schema).parquet(each.config.path)
    fields = ARCHIVED if each.kind == ARCHIVE else task.statement.fields_of(name)
    return wanted(frame, fields).mapInArrow(partial(_of_frame, own), PART_DDL)


def _learnt(task: Task, lookups: LookupSource | None) -> pa.Schema:
    logs = {}
    for name, each in task.inputs.items():
        paths = files_of(each.config.path) if each.kind == "log" else []
        if not paths:
            hint = "Give the DDL of the query's columns, such as schema='product STRING, clicks BIGINT'."
            raise UsageError(f"{name} has no log from which to infer the types of the rows", hint=hint)
        logs[name] = (paths, each.format(task.host))
    run = LogRun(task.statement, (), streams=logs, lookups=lookups, sample=SAMPLE)
    types: dict[bytes, bool] = {}
    for answer in run.answers():
        data = answer.table.schema.serialize().to_pybytes()
        types[data] = types.get(data, False) or answer.table.num_rows > 0
    return pa.schema(list(result_schema(task.statement, types))[len(HEAD) :])


# -- inside the tasks


def _of_files(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pieces = [
        FilePiece(task.stream, row["path"].removeprefix("file:"), content=row["content"])
        for batch in batches
        for row in batch.to_pylist()
    ]
    if pieces:
        yield from _dated(task, contribute(task, pieces, newest=True))


def _of_frame(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    frames = ((task.stream, batch) for batch in batches)
    yield from _dated(task, contribute(task, (), frames, newest=True))


def _dated(task: Task, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    window = task.statement.window
    assert window is not None
    for row in (row for batch in found for row in batch.to_pylist()):
        error = row.pop("error")
        if error:
            raise RuntimeError(f"ELF_HISTORY: {unpack_error(error)}")
        index = row["interval_index"]
        at = row["number"] if index is None else index * window.slide_us
        yield pa.RecordBatch.from_pylist([{**row, "at": at}], PART)


def _closed(task: Task, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["interval_index"] is None:
            continue
        parts = [{**part, "interval_index": row["interval_index"]} for part in row["parts"]]
        for answer in finish(task, [pa.RecordBatch.from_pylist(parts, CONTRIBUTION)]):
            (found,) = answer.to_pylist()
            if found["error"]:
                raise RuntimeError(f"ELF_HISTORY: {unpack_error(found['error'])}")
            yield from framed(found, ipc_to_table(found["table"]), schema).to_batches()


def stream_inputs(inputs: Mapping[str, HistoryInput]) -> Mapping[str, HistoryInput]:
    """Return the inputs. Raises UsageError for an input that cannot be streamed."""
    for name, each in inputs.items():
        if each.frame is not None and not each.frame.isStreaming:
            raise UsageError(f"{name} is a DataFrame that does not stream", hint="Use spark.readStream.")
        if each.kind not in ("log", "remote", "frame", PARQUET, ARCHIVE):
            raise UsageError(f"{name}: {each.kind} is read in a batch only")
    return inputs

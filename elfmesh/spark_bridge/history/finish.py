"""The last step of a query on Spark: merges and finalises contributions as the root of a job does.

Runs on executors. Rows arrive sorted by interval, and all rows of an interval are in one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from elfmesh.cbt import TypeConflict
from elfmesh.cbt.partial.partial import merged_parts
from elfmesh.control.jobs.records import NOT_COUNTED, add_counts
from elfmesh.errors import DataError, ElfError
from elfmesh.ingest.worker.intervals import OpenInterval
from elfmesh.local.run_groups import shown
from elfmesh.ql import Query
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.spark_bridge.history.plan import ANSWER, Task, pack_error

Row = dict[str, Any]


def finish(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert batches of `CONTRIBUTION` to batches of `ANSWER`. Holds one interval in memory."""
    try:
        for row in _answers(task, (row for batch in batches for row in batch.to_pylist())):
            yield pa.RecordBatch.from_pylist([row], ANSWER)
    except ElfError as error:
        yield pa.RecordBatch.from_pylist([{"interval_index": 0, "error": pack_error(error)}], ANSWER)


def _answers(task: Task, rows: Iterator[Row]) -> Iterator[Row]:
    statement = task.statement
    query, window = Query(statement), statement.window
    failed: list[str] = []
    for each in shown(statement, _intervals(rows, failed)):
        index = each.index
        if not task.wants(index):
            continue
        bounds = None
        if window is not None:
            bounds = (index * window.slide_us, index * window.slide_us + window.size_us)
        latest = task.jobs.beside(query, *(bounds or (None, None)))
        try:
            table = query.finalise_parts({**each.tables, **latest}, bounds)
        except TypeConflict as error:
            raise _conflict(error, index) from None
        yield answer(index, 0, bounds, each.counts, table)
    for reported in failed:
        yield {"interval_index": 0, "error": reported}


def answer(
    index: int, number: int, bounds: tuple[int, int] | None, counts: Sequence[int], table: pa.Table
) -> Row:
    """Return a row of `ANSWER`."""
    return {
        "interval_index": index,
        "number": number,
        "start_us": bounds[0] if bounds else None,
        "end_us": bounds[1] if bounds else None,
        "counts": list(counts),
        "rows": table.num_rows,
        "types": table.schema.serialize().to_pybytes(),
        "table": table_to_ipc(table),
    }


def _intervals(rows: Iterator[Row], failed: list[str]) -> Iterator[OpenInterval]:
    for index, group in groupby(rows, key=lambda row: row["interval_index"]):
        parts = list(group)
        failed += [row["error"] for row in parts if row["error"]]
        if failed:
            return
        payloads = [row["payload"] for row in parts if row["payload"]]
        try:
            tables = merged_parts(payloads, {}) if payloads else None
        except TypeConflict as error:
            raise _conflict(error, index) from None
        yield OpenInterval(index, add_counts(row["counts"] for row in parts) or NOT_COUNTED, tables)


def _conflict(error: TypeConflict, index: int) -> DataError:
    hint = "CAST the column to one type in the query, or declare its type in the stream's settings."
    return DataError(
        f"parts of the history have different types: {error}", where=f"interval {index}", hint=hint
    )

"""Executes a query over history as a Spark plan: tasks over shares of the input, a shuffle by interval, rows.

The plan uses only DataFrame operations, so a local session, a cluster and Spark Connect run the same plan. An
error in a task is returned as a row and raised here with its own type, not as a trace of a Python worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs import spark_types
from elfmesh.control.jobs.records import ResultRecord, add_counts, counts_dict, counts_list
from elfmesh.errors import DataError
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ql import Statement
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.spark_bridge.history.finish import answer, finish
from elfmesh.spark_bridge.history.inputs import (
    ARCHIVE,
    PARQUET,
    SHARES_MAX,
    SPLIT_BYTES,
    FilePiece,
    HistoryInput,
    pieces_of,
)
from elfmesh.spark_bridge.history.plan import (
    ANSWER,
    ANSWER_DDL,
    CONTRIBUTION_DDL,
    Task,
    unpack_error,
)
from elfmesh.spark_bridge.history.share import ARCHIVED, contribute

HEAD = pa.schema([*spark_types.HEAD][:3])
"""Columns before those of the query."""

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Interval:
    """The answer of one interval without its rows."""

    record: ResultRecord
    rows: int
    number: int


class History:
    """The answer of one statement over history. `split_bytes` is a task's share of a plain file."""

    def __init__(self, spark: Any, task: Task, *, split_bytes: int = SPLIT_BYTES) -> None:
        self._spark, self._task, self._inputs = spark, task.sent, task.inputs
        self.statement = task.statement
        """The statement."""
        self.projects = is_projection(self.statement)
        self._answers = self._planned(split_bytes).persist()
        self._schema: pa.Schema | None = None
        self.intervals: list[Interval] = []
        self._look()

    def close(self) -> None:
        """Release the cached answer on the executors."""
        self._answers.unpersist()

    def frame(self) -> Any:
        """Return the rows as a DataFrame.

        Columns: interval_index, interval_start, interval_end, then those of the query.
        """
        schema = self.schema
        ordered = self._answers.orderBy("interval_index", "number")
        keep = None
        if self.projects:
            keep = {each.number: each.rows for each in self.intervals}
        return ordered.mapInArrow(partial(_rows, schema, keep), spark_types.ddl(schema))

    @property
    def schema(self) -> pa.Schema:
        """The columns of `frame`."""
        assert self._schema is not None
        return self._schema

    def answers(self) -> Iterator[IntervalResult]:
        """Yield the intervals with their rows, as `elf run` does. Cost: holds all of them."""
        rows = self._answers.select("interval_index", "number", "table").collect()
        found = sorted(rows, key=lambda row: (row["interval_index"], row["number"]))
        tables = [ipc_to_table(bytes(row["table"])) for row in found]
        if self.projects:
            yield from self._projected(tables)
            return
        for table, known in zip(tables, self.intervals, strict=True):
            yield IntervalResult(known.record, table)

    def _projected(self, found: Sequence[pa.Table]) -> Iterator[IntervalResult]:
        tables = [table.slice(0, each.rows) for table, each in zip(found, self.intervals, strict=True)]
        whole = pa.concat_tables(tables, promote_options="permissive")
        counts = add_counts(counts_list(each.record.counts) for each in self.intervals)
        yield IntervalResult(replace_counts(self.intervals[0].record, counts), whole)

    # -- the plan

    def _planned(self, split_bytes: int) -> Any:
        shares = list(self._shares(split_bytes))
        whole = shares[0]
        for each in shares[1:]:
            whole = whole.unionByName(each)
        if self.projects:
            return whole.mapInArrow(partial(_as_answers, self._task), ANSWER_DDL)
        # Sessions and partitions continue from one interval to the next, so one task processes all intervals.
        together = (
            whole.repartition(1) if self.statement.spans_intervals else whole.repartition("interval_index")
        )
        ordered = together.sortWithinPartitions("interval_index")
        return ordered.mapInArrow(partial(finish, self._task), ANSWER_DDL)

    def _shares(self, split_bytes: int) -> Iterator[Any]:
        pieces: list[FilePiece] = []
        first = 0
        for name in self.statement.streams:
            each = self._inputs.get(name)
            if each is None or each.kind == "elf":
                continue
            if each.kind == "log":
                pieces += pieces_of(each, self._task.host, split_bytes)
                continue
            first += 1 << 20
            task = replace(self._task, stream=name)
            if each.kind == "remote":
                files = self._spark.read.format("binaryFile").load(each.config.path).select("path", "content")
                yield files.mapInArrow(partial(_of_files, task, first), CONTRIBUTION_DDL)
                continue
            frame = frame_of(self._spark, each)
            fields = ARCHIVED if each.kind == ARCHIVE else self.statement.fields_of(name)
            frame = wanted(frame, fields)
            yield frame.mapInArrow(partial(_of_frame, task, first), CONTRIBUTION_DDL)
        groups = grouped(pieces)
        if groups or not first:
            tasks = self._spark.range(0, max(1, len(groups)), 1, max(1, len(groups)))
            yield tasks.mapInArrow(partial(_of_pieces, self._task, groups), CONTRIBUTION_DDL)
        elif self._task.jobs.check(self.statement):
            tasks = self._spark.range(0, 1, 1, 1)
            yield tasks.mapInArrow(partial(_of_pieces, self._task, []), CONTRIBUTION_DDL)

    def _look(self) -> None:
        names = ["interval_index", "number", "start_us", "end_us", "counts", "rows", "types", "error"]
        seen = self._answers.select(*names).collect()
        seen.sort(key=lambda row: (row["interval_index"], row["number"] or 0))
        errors = [row["error"] for row in seen if row["error"]]
        if errors:
            self.close()
            raise unpack_error(errors[0])
        limit = self.statement.plan.limit if self.projects else None
        types: dict[bytes, bool] = {}
        for row in seen:
            rows = row["rows"] if limit is None else min(row["rows"], limit)
            limit = None if limit is None else limit - rows
            types[bytes(row["types"])] = types.get(bytes(row["types"]), False) or rows > 0
            record = ResultRecord(
                job=self.statement.name,
                index=row["interval_index"],
                start_us=row["start_us"],
                end_us=row["end_us"],
                counts=counts_dict(row["counts"]),
            )
            self.intervals.append(Interval(record, rows, row["number"]))
        self._schema = result_schema(self.statement, types)


def replace_counts(record: ResultRecord, counts: Sequence[int]) -> ResultRecord:
    """Return the record with other counts."""
    return ResultRecord(job=record.job, index=record.index, counts=counts_dict(counts))


def is_projection(statement: Statement) -> bool:
    """Whether the rows correspond one by one to those of the input, in their order: see `LogRun.streams`."""
    plan = statement.plan
    plain = bool(plan.repeat) and not plan.order and not plan.distinct and plan.having is None
    return plain and not plan.offset and statement.window is None and statement.relation is None


def grouped(pieces: Sequence[FilePiece], shares_max: int = SHARES_MAX) -> list[list[FilePiece]]:
    """Group pieces into tasks, in their order."""
    size = max(1, -(-len(pieces) // shares_max))
    return [list(pieces[at : at + size]) for at in range(0, len(pieces), size)]


def result_schema(statement: Statement, types: Mapping[bytes, bool]) -> pa.Schema:
    """Return the columns of a DataFrame over tables of these types.

    Tables without rows count only if no table has rows.

    Raises:
        DataError: a column of the query has the name of one of the interval's columns, or columns have
            incompatible types.
    """
    schemas = [pa.ipc.read_schema(pa.py_buffer(data)) for data, has_rows in types.items() if has_rows]
    schemas = schemas or [pa.ipc.read_schema(pa.py_buffer(data)) for data in types]
    found = pa.schema([(name, pa.null()) for name in statement.columns])
    for schema in schemas:
        fields = []
        for field, other in zip(found, schema, strict=True):
            try:
                both = pa.unify_schemas(
                    [pa.schema([field]), pa.schema([other])], promote_options="permissive"
                )
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                hint = "CAST it in the query to one type."
                raise DataError(f"column {field.name} has several types: {error}", hint=hint) from None
            fields.append(both.field(0))
        found = pa.schema(fields)
    names = [name.lower() for name in (*HEAD.names, *found.names)]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        hint = "The interval's own columns come first: rename the query's with AS."
        raise DataError(f"two columns of the DataFrame are called {twice[0]}", hint=hint)
    own = [pa.field(field.name, spark_types.plain_type(field.type)) for field in found]
    return pa.schema([*HEAD, *own])


def frame_of(spark: Any, each: HistoryInput) -> Any:
    """Return the rows of a stream that is a table, without those that an archive could not parse."""
    if each.frame is not None:
        return each.frame
    frame = spark.read.parquet(each.config.path)
    if each.kind == PARQUET and {"_raw", "_generation", "_offset"} <= set(frame.columns):
        return frame.where("_raw IS NULL")
    return frame


def wanted(frame: Any, fields: Sequence[str]) -> Any:
    """Select the columns that a statement reads. Missing columns are null, as fields of a log are."""
    tops = {name.partition(".")[0] for name in fields} | set(fields)
    # a batch without columns does not have a number of rows
    names = [name for name in frame.columns if name in tops] or frame.columns[:1]
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in names))


# -- inside the tasks


def _of_pieces(
    task: Task, groups: Sequence[Sequence[FilePiece]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for place in batch.column(0).to_pylist():
            pieces = groups[place] if groups else ()
            yield from contribute(task, pieces, results=place == 0, number=place)


def _of_files(task: Task, first: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    for number, row in enumerate(row for batch in batches for row in batch.to_pylist()):
        piece = FilePiece(task.stream, row["path"], content=row["content"])
        yield from contribute(task, [piece], number=first + _partition() * 1024 + number)


def _of_frame(task: Task, first: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from contribute(task, (), ((task.stream, batch) for batch in batches), number=first + _partition())


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _as_answers(task: Task, batches: Batches) -> Iterator[pa.RecordBatch]:
    for row in itertools.chain.from_iterable(batch.to_pylist() for batch in batches):
        if row["error"]:
            given: dict[str, Any] = {"interval_index": 0, "number": row["number"], "error": row["error"]}
        else:
            table = ipc_to_table(row["payload"])
            if not row["payload"]:
                table = pa.table({name: pa.nulls(0) for name in task.statement.columns})
            given = answer(0, row["number"], None, row["counts"], table)
        yield pa.RecordBatch.from_pylist([given], ANSWER)


def _rows(schema: pa.Schema, keep: Mapping[int, int] | None, batches: Batches) -> Iterator[pa.RecordBatch]:
    for row in itertools.chain.from_iterable(batch.to_pylist() for batch in batches):
        table = ipc_to_table(row["table"])
        if keep is not None:
            table = table.slice(0, keep.get(row["number"], 0))
        yield from framed(row, table, schema).to_batches()


def framed(row: Mapping[str, Any], table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of one interval, preceded by the interval's own columns, in the types of `schema`."""
    count = table.num_rows
    head = (row["interval_index"], row["start_us"], row["end_us"])
    columns = [pa.array([value] * count, field.type) for value, field in zip(head, HEAD, strict=True)]
    for field in list(schema)[len(HEAD) :]:
        column = table.column(field.name)
        try:
            options = pc.CastOptions(field.type, allow_time_truncate=True)
            columns.append(column if column.type == field.type else pc.cast(column, options=options))
        except pa.ArrowInvalid as error:
            hint = "CAST it in the query to one type."
            raise DataError(f"column {field.name} does not fit {field.type}: {error}", hint=hint) from None
    return pa.Table.from_arrays(columns, schema=schema)

"""Results of jobs as records of other jobs: `FROM shop.other`.

A result row is a record of its interval. It has the columns of the job and `ts`, the start of the interval,
unless the job has a column of that name. For `elf run` this module stores the results of the jobs in one
file: they run in order, and a job reads the results of earlier ones. On agents, the results come from the
upstream job's master (`control/closing/upstream_intervals.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pyarrow as pa

from elfmesh.control.jobs.plan import check_result_columns
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ql import Query, Statement
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.engine.finalise_parts import Reduced
from elfmesh.ql.expressions.refusals import FILE_HINT
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.statement import SAME, job_read
from elfmesh.ql.plan.windows import TIME_COLUMN
from elfmesh.ql.values.types import TIMESTAMP

IMPLICIT = ("_raw", "_source", "_host")

FILE_ENDS = {"log", "json", "ndjson", "csv", "txt", "gz", "parquet"}
"""Suffixes by which a name after FROM is recognised as a file."""


class JobRows:
    """Results of the jobs that have run."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[str, ...]] = {}
        self._tables: dict[str, list[tuple[int, pa.Table]]] = {}
        self._sizes_us: dict[str, int] = {}

    def begin(self, statement: Statement) -> None:
        if statement.job is not None:
            self._columns[statement.job.qualified] = statement.columns
            self._tables[statement.job.qualified] = []
            assert statement.window is not None, "a job has intervals"
            self._sizes_us[statement.job.qualified] = statement.window.size_us

    def add(self, statement: Statement, result: IntervalResult) -> None:
        start_us, table = result.record.start_us, result.table
        if statement.job is None or start_us is None:
            return
        self._tables[statement.job.qualified].append((start_us, table))

    def put(
        self, job: str, columns: tuple[str, ...], size_us: int, tables: list[tuple[int, pa.Table]]
    ) -> None:
        """Store the results of a job that ran elsewhere: start and rows of each interval, ascending."""
        self._columns[job], self._sizes_us[job], self._tables[job] = columns, size_us, tables

    def schemas(self) -> dict[str, pa.Schema]:
        """Return the columns of each job that has run; their types are null if it has no rows."""
        return {
            job: tables[-1][1].schema
            if tables
            else pa.schema([(name, pa.null()) for name in self._columns[job]])
            for job, tables in self._tables.items()
        }

    @classmethod
    def without_rows(cls, other: JobRows) -> JobRows:
        found = cls()
        for job, columns in other._columns.items():
            found.put(job, columns, other._sizes_us[job], [])
        return found

    def check(self, statement: Statement) -> tuple[str, ...]:
        """Return the inputs of a statement that are results.

        Raises:
            QueryError: A job has not run, or has no such column; or the statement has HISTORY or UNTIL, which
                mean a time on the fleet's clocks.
        """
        job_clause = statement.job
        if job_clause is not None and (job_clause.history_us, job_clause.until_us) != (None, None):
            hint = "Leave HISTORY and UNTIL out here, where the query reads its input from beginning to end."
            text = "HISTORY and UNTIL are for jobs on agents"
            raise statement.origin.error(text, statement.offset, hint)
        read = tuple(name for name in statement.streams if job_read(name))
        for name in read:
            job = job_read(name)
            if job not in self._columns:
                shown = job.replace("/", ".")
                hint = "Jobs of one file run in order: put the job that is read first."
                if shown.rpartition(".")[2] in FILE_ENDS:
                    hint = FILE_HINT
                raise statement.origin.error(
                    f"no job {shown} is defined before this one", statement.offset, hint
                )
            check_result_columns(statement, name, self._columns[job])
        return read

    def blocks(self, statement: Statement) -> Iterator[tuple[Parsed, Block]]:
        for name in self.check(statement):
            for start_us, table in () if name in statement.latest else self._tables[name]:
                yield result_block(statement, name, start_us, table)

    def beside(self, query: Query, start_us: int | None, end_us: int | None) -> dict[str, Reduced]:
        """Return the single result that an interval reads of each job with LATEST or SAME.

        See `control.latest`.
        """
        found: dict[str, Reduced] = {}
        for name in query.statement.latest:
            size_us = self._sizes_us[job_read(name)]
            same = name.startswith(SAME)
            for begin_us, table in reversed(self._tables[job_read(name)]):
                ended = start_us is None or begin_us + size_us <= start_us
                if table.num_rows and (begin_us + size_us == end_us if same else ended):
                    found |= latest_tables(query, name, begin_us, table)
                    break
        return found


def latest_tables(query: Query, name: str, start_us: int, table: pa.Table) -> dict[str, Reduced]:
    """Return the reduced tables of the parts that read a job's newest result."""
    parsed, _ = result_block(query.statement, name, start_us, table)
    return query.reduced(name, BlockRows(parsed.arrays, parsed.rows))


def result_block(statement: Statement, name: str, start_us: int, table: pa.Table) -> tuple[Parsed, Block]:
    if TIME_COLUMN not in table.column_names:
        start = pa.scalar(start_us, pa.int64()).cast(TIMESTAMP)
        table = table.append_column(TIME_COLUMN, pa.repeat(start, table.num_rows))
    wanted = statement.fields_of(name)
    columns = {column: read_column(table.column(column)) for column in table.column_names}
    arrays = dict(itertools.chain(_implicit(wanted, name, table.num_rows), columns.items()))
    given: Mapping[str, pa.Array] = {column: arrays[column] for column in wanted}
    return Parsed(given, table.num_rows, table.num_rows, 0, []), Block(b"", name, stream=name)


def _implicit(wanted: tuple[str, ...], name: str, rows: int) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns that every format has; for a result only its source is set."""
    for column in IMPLICIT:
        if column in wanted:
            value = name if column == "_source" else None
            yield column, pa.repeat(pa.scalar(value, pa.string()), rows)

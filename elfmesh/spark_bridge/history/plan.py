"""Plain data that all tasks of a query on Spark receive, and schemas of the rows that tasks exchange."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from elfmesh import errors
from elfmesh.errors import ElfError, QueryError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ql import Statement, expand
from elfmesh.ql.text.parsing import parse_each
from elfmesh.spark_bridge.history.inputs import HistoryInput

CONTRIBUTION = pa.schema(
    [
        ("interval_index", pa.int64()),
        ("number", pa.int64()),
        ("counts", pa.list_(pa.int64())),
        ("payload", pa.binary()),
        ("error", pa.string()),
    ]
)
"""Contribution of one task to one interval; for a plain projection, some rows in their order."""

CONTRIBUTION_DDL = "interval_index BIGINT, number BIGINT, counts ARRAY<BIGINT>, payload BINARY, error STRING"

ANSWER = pa.schema(
    [
        ("interval_index", pa.int64()),
        ("number", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("counts", pa.list_(pa.int64())),
        ("rows", pa.int64()),
        ("types", pa.binary()),
        ("table", pa.binary()),
        ("error", pa.string()),
    ]
)
"""Answer of one interval. Its rows are an Arrow IPC stream; `types` is the schema of that stream."""

ANSWER_DDL = (
    "interval_index BIGINT, number BIGINT, start_us BIGINT, end_us BIGINT, counts ARRAY<BIGINT>, "
    "rows BIGINT, types BINARY, table BINARY, error STRING"
)


Declared: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Columns by stream."""


@dataclass(frozen=True)
class JoinedTables:
    """Tables that a statement joins, with the needed columns. Executors do not have the files."""

    tables: Mapping[tuple[str, tuple[str, ...]], pa.Table]

    def __call__(self, name: str, columns: tuple[str, ...]) -> pa.Table:
        """Return some columns of a table."""
        return self.tables[name, columns]


@dataclass(frozen=True)
class Task:
    """One statement and everything that its tasks need.

    Attributes:
        text: text of all statements; this one has the index `number`.
        number: index of the statement.
        source: name of the text in errors.
        host: value of `_host` for logs.
        star: columns that `SELECT *` means, by stream; empty without a star.
        inputs: inputs of the streams that are logs, by name.
        types: types of columns that the first records determine, by stream.
        lookups: tables that the statement joins.
        jobs: results that the statement reads.
        python: whether its Python functions may run.
        memory_bytes: memory for aggregates in a task; larger state is spilled to files.
        stream: stream of the batches that a task receives.
        only: first and last wanted interval; None: all.
        declared: columns of streams that are known before anything is read, if they matter.
    """

    text: str
    number: int
    source: str
    host: str
    star: Declared = ()
    inputs: Mapping[str, HistoryInput] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, pa.DataType]] = field(default_factory=dict)
    lookups: JoinedTables = field(default_factory=lambda: JoinedTables({}))
    jobs: JobRows = field(default_factory=JobRows)
    python: bool = False
    memory_bytes: int = 64_000_000
    stream: str = ""
    only: tuple[int, int] | None = None
    declared: Declared = ()

    @property
    def statement(self) -> Statement:
        """The parsed statement with its columns."""
        return _statement(self.text, self.number, self.source, self.star, self.declared)

    def wants(self, index: int) -> bool:
        """Whether an interval is wanted. Groups that span intervals need all earlier ones as well."""
        return self.only is None or self.only[0] <= index <= self.only[1]

    @property
    def sent(self) -> Task:
        """The task as sent to executors, without DataFrames, which stay in the driver."""
        return replace(self, inputs={name: replace(each, frame=None) for name, each in self.inputs.items()})


@lru_cache(maxsize=64)
def _statement(text: str, number: int, source: str, star: Declared, declared: Declared) -> Statement:
    every = parse_each(text, source=source, declared=dict(declared))
    found = next(itertools.islice(every, number, None))
    if isinstance(found, QueryError):
        raise found
    statement: Statement = found
    for stream, columns in star:
        statement = expand(statement, columns, stream)
    return statement


def pack_error(error: ElfError) -> str:
    """Encode an error as the text of a row, because an error that a task raises is buried in traces."""
    kind = next(each.__name__ for each in type(error).__mro__ if hasattr(errors, each.__name__))
    reported: dict[str, object] = {"kind": kind, "message": error.message, "where": error.where}
    reported["hint"] = error.hint
    if isinstance(error, QueryError):
        reported |= {"line": error.line, "column": error.column, "source": error.source}
    return json.dumps(reported)


def unpack_error(text: str) -> ElfError:
    """Decode the text of `pack_error`."""
    reported = json.loads(text)
    kind = getattr(errors, reported.pop("kind"))
    if kind is QueryError:
        reported.pop("where")
        return QueryError(**reported)
    found: ElfError = kind(reported["message"], where=reported["where"], hint=reported["hint"])
    return found

"""What every task of a query on Spark is told, and the rows that tasks hand each other: plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from elfmesh import errors
from elfmesh.errors import ElfError, QueryError
from elfmesh.ingest.job_rows import JobRows
from elfmesh.ql import Statement, declare, expand, parse_many
from elfmesh.spark_bridge.history.inputs import Input

CONTRIBUTION = pa.schema(
    [
        ("interval_index", pa.int64()),
        ("number", pa.int64()),
        ("counts", pa.list_(pa.int64())),
        ("payload", pa.binary()),
        ("error", pa.string()),
    ]
)
"""What one task gives of one interval; of a plain projection, some rows in their order."""

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
"""The answer of one interval; its rows are an Arrow IPC stream, `types` that stream's schema."""

ANSWER_DDL = (
    "interval_index BIGINT, number BIGINT, start_us BIGINT, end_us BIGINT, counts ARRAY<BIGINT>, "
    "rows BIGINT, types BINARY, table BINARY, error STRING"
)


Declared: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Columns by stream."""


@dataclass(frozen=True)
class Lookups:
    """The tables that a statement joins, with the columns it needs: no executor has their files."""

    tables: Mapping[tuple[str, tuple[str, ...]], pa.Table]

    def __call__(self, name: str, columns: tuple[str, ...]) -> pa.Table:
        """Some columns of a table."""
        return self.tables[name, columns]


@dataclass(frozen=True)
class Task:
    """One statement and all that its tasks need.

    Attributes:
        text: of all statements, of which this is `number`.
        host: what `_host` says of logs.
        star: the columns that `SELECT *` means, of each stream; empty where there is none.
        inputs: of the streams that are logs, by name.
        types: per stream the types of columns that its first records settle.
        jobs: results that it reads.
        python: whether its Python functions may run.
        memory_bytes: what aggregates may take in a task; what is beyond goes to files.
        stream: the stream of the batches that a task is given.
        only: the first and the last interval that is wanted; None: all.
        declared: the columns of streams that are known before anything is read, where it matters.
    """

    text: str
    number: int
    source: str
    host: str
    star: Declared = ()
    inputs: Mapping[str, Input] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, pa.DataType]] = field(default_factory=dict)
    lookups: Lookups = field(default_factory=lambda: Lookups({}))
    jobs: JobRows = field(default_factory=JobRows)
    python: bool = False
    memory_bytes: int = 64_000_000
    stream: str = ""
    only: tuple[int, int] | None = None
    declared: Declared = ()

    @property
    def statement(self) -> Statement:
        """Parsed, with its columns."""
        return _statement(self.text, self.number, self.source, self.star, self.declared)

    def wants(self, index: int) -> bool:
        """Whether an interval is asked for; sessions need all that come before."""
        return self.only is None or self.only[0] <= index <= self.only[1]

    @property
    def sent(self) -> Task:
        """What goes to the executors: DataFrames stay with the driver."""
        return replace(self, inputs={name: replace(each, frame=None) for name, each in self.inputs.items()})


@lru_cache(maxsize=64)
def _statement(text: str, number: int, source: str, star: Declared, declared: Declared) -> Statement:
    statement = declare(parse_many(text, source=source)[number], dict(declared))
    for stream, columns in star:
        statement = expand(statement, columns, stream)
    return statement


def pack_error(error: ElfError) -> str:
    """An error as text that travels in a row: raised in a task, it would be buried in traces."""
    kind = next(each.__name__ for each in type(error).__mro__ if hasattr(errors, each.__name__))
    reported: dict[str, object] = {"kind": kind, "message": error.message, "where": error.where}
    reported["hint"] = error.hint
    if isinstance(error, QueryError):
        reported |= {"line": error.line, "column": error.column, "source": error.source}
    return json.dumps(reported)


def unpack_error(text: str) -> ElfError:
    """The inverse of `pack_error`."""
    reported = json.loads(text)
    kind = getattr(errors, reported.pop("kind"))
    if kind is QueryError:
        reported.pop("where")
        return QueryError(**reported)
    found: ElfError = kind(reported["message"], where=reported["where"], hint=reported["hint"])
    return found

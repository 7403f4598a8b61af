"""Profile of a log: its format, its columns with types and values, and the time that it covers.

The log is read as `SELECT *` reads it, so that the profile shows what a query gets. The columns are those of
the first block.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.control.jobs.spark_types import type_name
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources.blocks import is_pipe
from elfmesh.local.embedded import LogRun
from elfmesh.local.parquet_input import PARQUET
from elfmesh.ql import parse

SNIFFED = 20
"""Number of first lines whose share that fits the format is reported: those that select the format."""

SAMPLES = 3
DISTINCT_ROWS = 1000
"""Number of first rows of a block in which different sample values are searched."""


@dataclass(slots=True)
class ColumnProfile:
    """One column.

    Attributes:
        name: name of the column.
        types: names of its types, in the order in which they were found; a JSON field may have several.
        values: number of records that have a value.
        least: the smallest value; None for lists, objects and columns of several types.
        largest: the largest value.
        samples: the first different values.
    """

    name: str
    types: list[str] = field(default_factory=list)
    values: int = 0
    least: Any = None
    largest: Any = None
    samples: list[Any] = field(default_factory=list)

    def add(self, array: pa.ChunkedArray) -> None:
        """Add the values of one block."""
        found = len(array) - array.null_count
        if not found:
            return
        kind = type_name(array.type)
        if kind not in self.types:
            self.types.append(kind)
        self.values += found
        self.samples += _distinct(array.slice(0, DISTINCT_ROWS), SAMPLES - len(self.samples), self.samples)
        if len(self.types) == 1 and not pa.types.is_nested(array.type):
            extremes = pc.min_max(array).as_py()
            self.least = extremes["min"] if self.least is None else min(self.least, extremes["min"])
            self.largest = extremes["max"] if self.largest is None else max(self.largest, extremes["max"])
        else:
            self.least = self.largest = None


@dataclass(slots=True)
class LogProfile:
    """A log and its columns.

    Attributes:
        path: path of the log.
        format: name of the format.
        fitting: how many of the first `SNIFFED` lines fit the format, and how many there are; None: a pipe,
            or a Parquet file.
        records: number of lines that were read.
        bad: number of them that do not fit the format.
        bad_samples: the first of these lines, with the reason.
        columns: the columns in the order of the log.
        first: the smallest event time; None if no record has one.
        last: the largest event time.
    """

    path: str
    format: str
    fitting: tuple[int, int] | None
    records: int
    bad: int
    bad_samples: list[str]
    columns: list[ColumnProfile]
    first: datetime.datetime | None
    last: datetime.datetime | None

    @property
    def is_parquet(self) -> bool:
        """Whether the log has columns and no lines."""
        return self.format == PARQUET

    @property
    def lines_per_second(self) -> float | None:
        """Return the rate in event time; None if the log covers no time."""
        if self.first is None or self.last is None or self.first == self.last:
            return None
        return (self.records - self.bad) / (self.last - self.first).total_seconds()


def profile(
    path: str, formats: StreamFormat, *, sample: int | None = None, stdin: BinaryIO | None = None
) -> LogProfile:
    """Return the profile of a log, or of its first `sample` lines. Raises as `LogRun`.

    Cost: one pass over the log, with all columns, in constant memory.
    """
    run = LogRun(parse("SELECT * FROM log"), [path], format=formats, sample=sample, stdin=stdin)
    columns: dict[str, ColumnProfile] = {}
    for table in run.tables():
        for name in table.schema.names:
            columns.setdefault(name, ColumnProfile(name)).add(table.column(name))
    name = run.stats.formats.get(path, formats.spec)
    is_read_once = is_pipe(path) or name == PARQUET
    first, last = _times(path, formats, columns, sample, is_read_once=is_read_once)
    return LogProfile(
        path,
        name,
        None if is_read_once else _fitting(path, formats),
        run.stats.records,
        run.stats.parse_errors,
        run.stats.samples,
        [*columns.values()],
        first,
        last,
    )


def _fitting(path: str, formats: StreamFormat) -> tuple[int, int]:
    run = LogRun(parse("SELECT * FROM log"), [path], format=formats, sample=SNIFFED)
    for _ in run.tables():
        pass
    return run.stats.records - run.stats.parse_errors, run.stats.records


def _times(
    path: str,
    formats: StreamFormat,
    columns: Mapping[str, ColumnProfile],
    sample: int | None,
    *,
    is_read_once: bool,
) -> tuple[datetime.datetime | None, datetime.datetime | None]:
    """Return the extremes of the event time, which `*` has as a column only if the log has it as one."""
    ts = columns.get("ts")
    if ts is not None and isinstance(ts.least, datetime.datetime):
        return ts.least, ts.largest
    if is_read_once:
        return None, None
    query = parse("SELECT min(ts) AS first, max(ts) AS last FROM log")
    ((row,),) = (
        each.table.to_pylist() for each in LogRun(query, [path], format=formats, sample=sample).results()
    )
    return row["first"], row["last"]


def _distinct(array: pa.ChunkedArray, count: int, known: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in array:
        shown = value.as_py()
        if len(found) >= count:
            break
        if shown is not None and shown not in known and shown not in found:
            found.append(shown)
    return found

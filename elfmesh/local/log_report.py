"""Summary of logs without a query: what they contain, how many lines per hour, and the most frequent values.

The module writes ELF-QL and reads its rows; it aggregates no records itself. The files of one format are read
in three passes: the profile, one query for all columns, and one for the course of time.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from elfmesh.errors import DataError, UsageError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources.blocks import is_pipe
from elfmesh.local.embedded import LogRun
from elfmesh.local.log_profile import ColumnProfile, LogProfile, profile
from elfmesh.ql import parse

TOP = 10
COUNTERS = 10_000
"""Number of different values of a column up to which its counts are exact (`approx_top_k`)."""

ESTIMATE = 1.1
"""Factor by which a number of different values may be higher than its estimate."""

FEW = 20
"""A column with at most so many different values is shown, however few records there are."""

FIRST_COLUMNS = ("path", "host", "status", "method", "vhost", "referer", "agent", "user")
"""Columns of access logs, in the order in which they are shown; the others follow in that of the log."""

ABSENT = "-"
"""What access logs write for a value that is not there."""

PLAIN = ("BOOLEAN", "STRING", "BIGINT", "DOUBLE")
_DAY = datetime.timedelta(days=1)
UNITS = (("MINUTE", _DAY / 24), ("HOUR", 3 * _DAY), ("DAY", 90 * _DAY), ("MONTH", 3000 * _DAY))
"""Unit of time, and the longest time that is shown in it; a longer one is shown in years."""


@dataclass(frozen=True, slots=True)
class FrequentValues:
    """The most frequent values of one column.

    Attributes:
        column: its name.
        distinct: number of different values, an estimate above some hundred.
        values: value and count, the most frequent first.
        is_exact: whether the counts are exact. Otherwise they may be too low.
    """

    column: str
    distinct: int
    values: list[tuple[Any, int]]
    is_exact: bool


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Extremes, mean and sum of one column of numbers."""

    column: str
    least: float
    largest: float
    mean: float
    sum: float


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """Lines of one minute, hour, day, month or year; `bytes` is None if the log has no such column."""

    start: datetime.datetime
    lines: int
    bytes: int | None


@dataclass(slots=True)
class LogSummary:
    """The report on the files of one format.

    Attributes:
        files: the profile of each file.
        unit: unit of `times`, as in `date_trunc`; "" if the lines have no time.
    """

    files: list[LogProfile]
    frequent: list[FrequentValues] = field(default_factory=list)
    numbers: list[NumberColumn] = field(default_factory=list)
    unit: str = ""
    times: list[TimeSlice] = field(default_factory=list)

    @property
    def format(self) -> str:
        """Return the name of the format."""
        return self.files[0].format

    @property
    def lines(self) -> int:
        """Return the number of lines that were read."""
        return sum(each.records for each in self.files)

    @property
    def bad(self) -> int:
        """Return the number of lines that do not fit the format."""
        return sum(each.bad for each in self.files)

    @property
    def first(self) -> datetime.datetime | None:
        """Return the smallest event time; None if no record has one."""
        return min((each.first for each in self.files if each.first is not None), default=None)

    @property
    def last(self) -> datetime.datetime | None:
        """Return the largest event time."""
        return max((each.last for each in self.files if each.last is not None), default=None)

    @property
    def lines_per_second(self) -> float | None:
        """Return the rate in event time; None if the logs cover no time."""
        if self.first is None or self.last is None or self.first == self.last:
            return None
        return (self.lines - self.bad) / (self.last - self.first).total_seconds()


def report(paths: Sequence[str], formats: StreamFormat) -> Iterator[LogSummary]:
    """Yield a report for each format of the files.

    Raises:
        UsageError: a file is a pipe, which cannot be read twice.
        DataError: no line of a file can be used.
        RuntimeFailure: a file is missing or unreadable.
    """
    for path in paths:
        if is_pipe(path):
            raise UsageError(f"a report reads {path} several times", hint="Save it to a file first.")
    profiles = [profile(path, formats) for path in paths]
    for each in profiles:
        if each.records and each.records == each.bad:
            hint = "Specify another --format; `elf describe log` shows the lines."
            raise DataError(f"no line is of the format {each.format}", where=each.path, hint=hint)
    profiles.sort(key=lambda each: each.format)
    for _, files in itertools.groupby(profiles, lambda each: each.format):
        yield _of_format([*files], formats)


def _of_format(files: list[LogProfile], formats: StreamFormat) -> LogSummary:
    found, paths = LogSummary(files), [each.path for each in files]
    columns = _columns(files)
    row = _rows(_query_of(columns), paths, formats)[0] if columns else {}
    for name, each in columns.items():
        at = [*columns].index(name)
        if _has_numbers(each) and row[f"least{at}"] is not None:
            about = (row[f"{what}{at}"] for what in ("least", "largest", "mean", "sum"))
            found.numbers.append(NumberColumn(name, *about))
        distinct = row.get(f"distinct{at}")
        if distinct and (name in FIRST_COLUMNS or distinct <= max(FEW, each.values // 2)):
            values = [(value["item"], value["count"]) for value in row[f"top{at}"]]
            if [value for value, _ in values] == [ABSENT] or (name == "request" and "path" in columns):
                continue
            found.frequent.append(FrequentValues(name, distinct, values, distinct * ESTIMATE <= COUNTERS))
    order = {name: number for number, name in enumerate(FIRST_COLUMNS)}
    found.frequent.sort(key=lambda each: order.get(each.column, len(order)))
    if found.first is not None and found.last is not None:
        found.unit = _unit(found.last - found.first)
        found.times = _times(found.unit, "bytes" in columns, paths, formats)
    return found


def _columns(files: Sequence[LogProfile]) -> dict[str, ColumnProfile]:
    """Return the columns with plain values of one type; those of times and objects have no frequent ones."""
    found: dict[str, ColumnProfile] = {}
    for each in (column for file in files for column in file.columns):
        known = found.setdefault(each.name, ColumnProfile(each.name))
        known.types = [*dict.fromkeys((*known.types, *each.types))]
        known.values += each.values
    return {name: each for name, each in found.items() if len(each.types) == 1 and each.types[0] in PLAIN}


def _has_numbers(column: ColumnProfile) -> bool:
    return column.types[0] in ("BIGINT", "DOUBLE") and column.name != "status"


def _query_of(columns: dict[str, ColumnProfile]) -> str:
    outputs = []
    for at, (name, each) in enumerate(columns.items()):
        quoted = _quoted(name)
        if _has_numbers(each):
            outputs += [f"min({quoted}) AS least{at}", f"max({quoted}) AS largest{at}"]
            outputs += [f"avg({quoted}) AS mean{at}", f"sum({quoted}) AS sum{at}"]
        else:
            outputs.append(f"approx_count_distinct({quoted}) AS distinct{at}")
            outputs.append(f"approx_top_k({quoted}, {TOP}, {COUNTERS}) AS top{at}")
    return f"SELECT {', '.join(outputs)} FROM log"


def _times(unit: str, has_bytes: bool, paths: Sequence[str], formats: StreamFormat) -> list[TimeSlice]:
    start, total = f"date_trunc('{unit}', ts)", ", sum(bytes) AS bytes" if has_bytes else ""
    text = f"SELECT {start} AS start, count(*) AS lines{total} FROM log WHERE ts IS NOT NULL GROUP BY {start}"
    rows = _rows(f"{text} ORDER BY start", paths, formats)
    return [TimeSlice(row["start"], row["lines"], row.get("bytes")) for row in rows]


def _unit(span: datetime.timedelta) -> str:
    return next((unit for unit, longest in UNITS if span <= longest), "YEAR")


def _rows(text: str, paths: Sequence[str], formats: StreamFormat) -> list[dict[str, Any]]:
    (answer,) = LogRun(parse(text), paths, format=formats).results()
    rows: list[dict[str, Any]] = answer.table.to_pylist()
    return rows


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

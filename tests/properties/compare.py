"""One statement here and in DuckDB over the same rows: equal, different, refused, or crashed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from elfmesh.errors import ElfError, QueryError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.ql import Statement, parse
from tests.properties.rows import Table, load, write_json

EQUAL, DIFFERENT, CRASHED, REFUSED, UNPLACED, NOT_COMPARED = (
    "equal",
    "different",
    "crashed",
    "refused",
    "refused without a place",
    "not compared",
)
"""What becomes of a statement; the last: the oracle does not take it."""

FINDINGS = (DIFFERENT, CRASHED, UNPLACED)
Values: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a statement, and why."""

    state: str
    why: str = ""


def oracle() -> duckdb.DuckDBPyConnection:
    """A DuckDB whose settings mean what Spark means."""
    connection = duckdb.connect()
    for setting in (
        "threads = 1",
        "default_null_order = 'nulls_first_on_asc_last_on_desc'",
        "ieee_floating_point_ops = false",
        "TimeZone = 'UTC'",
    ):
        connection.execute(f"SET {setting}")
    connection.execute("PRAGMA disable_optimizer")  # it loses a condition on the other side of a FULL JOIN
    return connection


@dataclass(slots=True)
class Bench:
    """Some tables as logs and in DuckDB.

    Attributes:
        tables: by name.
        root: where their logs are.
        connection: where they are tables.
        write: writes the log of a table.
        format: what `write` writes.
    """

    tables: Mapping[str, Table]
    root: Path
    connection: duckdb.DuckDBPyConnection
    write: Callable[[Table, Path], None] = write_json
    format: str = "json"

    def __post_init__(self) -> None:
        for table in self.tables.values():
            self.write(table, self.path(table.name))
            load(self.connection, table)

    def path(self, name: str) -> Path:
        """The log of a table."""
        return self.root / f"{name}.{self.format}"

    def run(self, statement: Statement) -> LogRun:
        """A statement over these logs."""
        logs = {name: ([str(self.path(name))], StreamFormat(self.format)) for name in statement.streams}
        return LogRun(statement, [], streams=logs)

    def verdict(self, elf: str, duck: str, *, ordered: bool) -> Verdict:
        """Run both texts."""
        try:
            wanted = self.connection.execute(duck).fetchall()
        except duckdb.Error as error:
            return Verdict(NOT_COMPARED, str(error).split("\n")[0])
        try:
            found = [row for table in self.answers(elf) for row in rows_of(table)]
        except ElfError as error:
            return refusal(error)
        except Exception as error:
            return Verdict(CRASHED, f"{type(error).__name__}: {str(error)[:200]}")
        return compared([tuple(map(plain, row)) for row in wanted], found, ordered=ordered)

    def answers(self, elf: str) -> list[Any]:
        """The tables of the intervals."""
        job = self.run(parse(elf))
        return list(job.tables()) if job.streams else [result.table for result in job.results()]


def refusal(error: ElfError) -> Verdict:
    """A refusal is as good as an answer if it says where and what to write."""
    if isinstance(error, QueryError) and error.line and error.hint:
        return Verdict(REFUSED, f"{error.message}\n  {error.hint}")
    return Verdict(UNPLACED, f"{type(error).__name__}: {error}")


def rows_of(table: Any) -> list[Values]:
    """The rows of an Arrow table, by position, as values that can be compared."""
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(map(plain, row)) for row in zip(*columns, strict=True)]


def compared(wanted: Sequence[Values], found: Sequence[Values], *, ordered: bool) -> Verdict:
    """Whether two lists of rows are the same, in any order unless it is part of the answer."""
    if Counter(wanted) == Counter(found):
        if not ordered or list(wanted) == list(found):
            return Verdict(EQUAL)
        return Verdict(DIFFERENT, f"order: {list(found)[:6]} instead of {list(wanted)[:6]}")
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return Verdict(
        DIFFERENT,
        f"{len(wanted)} rows wanted, {len(found)} found; missing {list(missing.elements())[:4]}, "
        f"too many {list(more.elements())[:4]}",
    )


def plain(value: Any) -> Any:
    """A value that equals the other side's for the same number or time; doubles to nine digits."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return str(float(value))
        value = float(f"{value:.9g}")
        return int(value) if value.is_integer() else value
    if isinstance(value, datetime):
        value = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return value.isoformat()
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00"
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    return repr(value)

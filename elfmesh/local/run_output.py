"""How `elf run` writes its answer: as an aligned table, as JSON lines, as csv. Data only, no messages.

Every writer takes intervals (`interval`) or, for a plain projection, its rows block by block (`rows`, then
`end`), and holds no more than a thousand rows. Values of logs are escaped on a table, where a terminal would
obey them; json and csv are data and stay exact. In particular csv does not change cells that begin with `=`,
`+`, `-` or `@`: a user who opens it in a spreadsheet must import it as text.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord, encode_json, iso_us, rows_to_json, to_json
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.ql import Statement
from elfmesh.ql.expressions.nodes import WindowBound
from elfmesh.text import CSV_END, printable

ROWS_HELD_MAX = 1000
"""Rows of a table that are measured together; later ones keep these widths or widen them."""

BOUNDS = ("window_start", "window_end")
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


class Writer(Protocol):
    """One answer being written."""

    def interval(self, result: IntervalResult) -> None:
        """Write one interval."""
        ...

    def rows(self, table: pa.Table) -> None:
        """Write some rows of a plain projection."""
        ...

    def end(self, record: ResultRecord | None) -> None:
        """Nothing follows; `record` is that of a plain projection."""
        ...


class JsonWriter:
    """One object a line, one line an interval. A plain projection is one line too, written as it comes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._open = False

    def interval(self, result: IntervalResult) -> None:
        """Write the interval's object."""
        self._line(to_json(result.record, result.table))

    def rows(self, table: pa.Table) -> None:
        """Begin the object, or go on in its rows."""
        text = encode_json(rows_to_json(table)).decode()[1:-1]
        if not self._open:
            self._out.write('{"rows":[')
            self._open = True
            self._out.write(text)
        elif text:
            self._out.write("," + text)

    def end(self, record: ResultRecord | None) -> None:
        """Close the object: its counts are only known now."""
        if record is not None:
            head = to_json(record, pa.table({}))
            del head["rows"]
            self._out.write("]," + encode_json(head).decode()[1:] + "\n")

    def _line(self, value: dict[str, Any]) -> None:
        self._out.write(encode_json(value).decode() + "\n")


class _Tabular:
    """Rows of text under a header; windowed queries get the bounds of the window in front.

    Not those of sessions, of which each row has its own: an interval's only say when it ended.
    """

    def __init__(self, statement: Statement) -> None:
        names = list(statement.columns)
        windowed = statement.window is not None and not statement.has_sessions
        self._bounded = windowed and not _has_bounds(statement)
        self._header = [*(BOUNDS if self._bounded else ()), *names]

    def _cells(self, table: pa.Table, record: ResultRecord | None) -> list[list[Any]]:
        bounds = [iso_us(record.start_us), iso_us(record.end_us)] if self._bounded and record else []
        rows = rows_to_json(table)
        return [[*bounds, *row.values()] for row in rows]


class _PlainEnds:
    """Lines end with a newline, and cells with a carriage return in them are quoted all the same."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, line: str) -> object:
        return self._out.write(line.removesuffix(CSV_END) + "\n")


class CsvWriter(_Tabular):
    """RFC 4180 with a header line; null is an empty field."""

    def __init__(self, out: TextIO, statement: Statement) -> None:
        super().__init__(statement)
        self._csv = csv.writer(_PlainEnds(out), lineterminator=CSV_END)
        self._csv.writerow(self._header)

    def interval(self, result: IntervalResult) -> None:
        """Write the interval's rows."""
        self._csv.writerows(map(_csv_row, self._cells(result.table, result.record)))

    def rows(self, table: pa.Table) -> None:
        """Write some rows."""
        self._csv.writerows(map(_csv_row, self._cells(table, None)))

    def end(self, record: ResultRecord | None) -> None:
        """Nothing is held."""


class TableWriter(_Tabular):
    """Columns aligned for people; numbers to the right, header in bold on a terminal."""

    def __init__(self, out: TextIO, statement: Statement, *, bold: bool) -> None:
        super().__init__(statement)
        self._out = out
        self._bold = bold
        self._held: list[list[Any]] = []
        self._widths: list[int] | None = None

    def interval(self, result: IntervalResult) -> None:
        """Hold the interval's rows, or write them when there are enough."""
        self._add(self._cells(result.table, result.record))

    def rows(self, table: pa.Table) -> None:
        """Hold some rows, or write them when there are enough."""
        for start in range(0, table.num_rows, ROWS_HELD_MAX):
            self._add(self._cells(table.slice(start, ROWS_HELD_MAX), None))

    def end(self, record: ResultRecord | None) -> None:
        """Write what is held."""
        self._flush()

    def _add(self, rows: list[list[Any]]) -> None:
        self._held += rows
        if len(self._held) >= ROWS_HELD_MAX:
            self._flush()

    def _flush(self) -> None:
        right = [any(_is_number(row[at]) for row in self._held) for at in range(len(self._header))]
        texts = [[_shown(value) for value in row] for row in self._held]
        self._held = []
        first = self._widths is None
        header = [printable(name) for name in self._header]
        widths = [cell_width(name) for name in header] if self._widths is None else self._widths
        for row in texts:
            widths = [max(width, cell_width(text)) for width, text in zip(widths, row, strict=True)]
        self._widths = widths
        if first:
            line = _aligned(header, widths, right)
            self._out.write(f"{BOLD}{line}{PLAIN}\n" if self._bold else f"{line}\n")
            self._out.write("  ".join("-" * width for width in widths) + "\n")
        self._out.writelines(_aligned(row, widths, right) + "\n" for row in texts)


def _has_bounds(statement: Statement) -> bool:
    if set(BOUNDS) & set(statement.columns):
        return True
    own = () if statement.relation is not None else statement.plan.outputs
    return any(isinstance(expr, WindowBound) for _, expr in own)


def writer(kind: str, out: TextIO, statement: Statement, *, bold: bool) -> Writer:
    """The writer for `-o kind`."""
    if kind == "json":
        return JsonWriter(out)
    return CsvWriter(out, statement) if kind == "csv" else TableWriter(out, statement, bold=bold)


def cell_width(text: str) -> int:
    """Columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for text, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_width(text))
        parts.append(space + text if to_right else text + space)
    return "  ".join(parts).rstrip()


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | bool | list | dict) and value is not None


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return printable(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return encode_json(value).decode()
    return str(value)


def _csv_row(row: list[Any]) -> list[Any]:
    return ["" if value is None else _text(value) for value in row]

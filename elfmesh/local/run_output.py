"""Writes the answer of `elf run` as an aligned table, as one JSON object per interval, or row by row.

A writer receives intervals (`interval`) or, for a plain projection, its rows block by block (`rows`, then
`end`). It holds at most a thousand rows. A table escapes values of logs, because a terminal would interpret
control characters; see `row_formats` for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import pyarrow as pa

from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.control.jobs.spark_types import UTC
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.local.row_formats import row_format, value_text
from elfmesh.ql import Statement
from elfmesh.ql.expressions.nodes import WindowBound
from elfmesh.ql.plan.statement import WITHIN
from elfmesh.ql.values.row_json import encode_json, iso_us, rows_to_json
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.local.parquet_file import ParquetRows

ROWS_HELD_MAX = 1000
"""Number of rows whose widths are measured together. Later rows keep these widths or widen them."""

BOUNDS = ("window_start", "window_end")
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


class AnswerWriter(Protocol):
    """Interface of the writers of one answer."""

    def interval(self, result: IntervalResult) -> None:
        """Write one interval."""
        ...

    def rows(self, table: pa.Table) -> None:
        """Write rows of a plain projection."""
        ...

    def end(self, record: ResultRecord | None) -> None:
        """Finish the output; `record` is the record of a plain projection."""
        ...


class JsonWriter:
    """Writes one JSON object per interval and line. The line of a plain projection is written in parts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._open = False

    def interval(self, result: IntervalResult) -> None:
        """Write the object of the interval."""
        self._line(to_json(result.record, result.table))

    def rows(self, table: pa.Table) -> None:
        """Start the object, or continue its rows."""
        text = encode_json(rows_to_json(table)).decode()[1:-1]
        if not self._open:
            self._out.write('{"rows":[')
            self._open = True
            self._out.write(text)
        elif text:
            self._out.write("," + text)

    def end(self, record: ResultRecord | None) -> None:
        """Finish the object with the counts, which are known only now."""
        if record is not None:
            head = to_json(record, pa.table({}))
            del head["rows"]
            self._out.write("]," + encode_json(head).decode()[1:] + "\n")

    def _line(self, value: dict[str, Any]) -> None:
        self._out.write(encode_json(value).decode() + "\n")


class _Tabular:
    """Base of writers with columns. Rows of windowed queries start with the bounds of the window.

    Queries with sessions are an exception, because each row is a session with its own bounds.
    """

    def __init__(self, statement: Statement) -> None:
        names = list(statement.columns)
        window = statement.window
        windowed = window is not None and (not statement.spans_intervals or window.kind == WITHIN)
        self._bounded = windowed and not _has_bounds(statement)
        self._header = [*(BOUNDS if self._bounded else ()), *names]

    def _cells(self, table: pa.Table, record: ResultRecord | None) -> list[list[Any]]:
        bounds = [iso_us(record.start_us), iso_us(record.end_us)] if self._bounded and record else []
        rows = rows_to_json(table)
        return [[*bounds, *row.values()] for row in rows]


class RowsWriter(_Tabular):
    """Writes rows in one of `ROW_FORMATS`; as JSON, each with the bounds and completeness of its interval."""

    def __init__(self, kind: str, out: TextIO, statement: Statement) -> None:
        super().__init__(statement)
        self._format = row_format(kind, out)
        self._heads = kind == "jsonl"
        if not self._heads:  # an answer without rows has a header too
            self._format.write(self._header, [])

    def interval(self, result: IntervalResult) -> None:
        """Write the rows of the interval."""
        record = result.record
        if not self._heads:
            self._format.write(self._header, self._cells(result.table, record))
            return
        bounds = {"interval_start": iso_us(record.start_us), "interval_end": iso_us(record.end_us)}
        head = {**(bounds if record.start_us is not None else {}), "completeness": record.completeness}
        for row in rows_to_json(result.table):
            self._format.write([*(found := {**head, **row})], [[*found.values()]])

    def rows(self, table: pa.Table) -> None:
        """Write rows."""
        self._format.write(table.column_names, [[*row.values()] for row in rows_to_json(table)])

    def end(self, record: ResultRecord | None) -> None:
        """Do nothing, because the writer holds no rows."""


class ParquetWriter(_Tabular):
    """Writes rows to a Parquet file, with the types of the result."""

    def __init__(self, rows: ParquetRows, statement: Statement) -> None:
        super().__init__(statement)
        self._rows = rows

    def interval(self, result: IntervalResult) -> None:
        """Write the rows of the interval."""
        table, record = result.table, result.record
        if self._bounded:
            for at, (name, us) in enumerate(zip(BOUNDS, (record.start_us, record.end_us), strict=True)):
                table = table.add_column(at, name, pa.repeat(pa.scalar(us, UTC), table.num_rows))
        self._rows.write(table)

    def rows(self, table: pa.Table) -> None:
        """Write rows."""
        self._rows.write(table)

    def end(self, record: ResultRecord | None) -> None:
        """Do nothing, because the file ends later."""


class TableWriter(_Tabular):
    """Writes aligned columns: numbers on the right.

    Args:
        out: receives the lines.
        statement: the query.
        bold: the header is bold.
        columns_max: width of the terminal; a line that is wider is cut. None: no line is cut.
    """

    def __init__(
        self, out: TextIO, statement: Statement, *, bold: bool, columns_max: int | None = None
    ) -> None:
        super().__init__(statement)
        self._columns_max = columns_max
        self._out = out
        self._bold = bold
        self._held: list[list[Any]] = []
        self._widths: list[int] | None = None

    def interval(self, result: IntervalResult) -> None:
        """Hold the rows of the interval, and write them if there are enough."""
        self._add(self._cells(result.table, result.record))

    def rows(self, table: pa.Table) -> None:
        """Hold rows, and write them if there are enough."""
        for start in range(0, table.num_rows, ROWS_HELD_MAX):
            self._add(self._cells(table.slice(start, ROWS_HELD_MAX), None))

    def end(self, record: ResultRecord | None) -> None:
        """Write the rows that are held."""
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
            line = self._cut(_aligned(header, widths, right))
            self._out.write(f"{BOLD}{line}{PLAIN}\n" if self._bold else f"{line}\n")
            self._out.write(self._cut("  ".join("-" * width for width in widths)) + "\n")
        self._out.writelines(self._cut(_aligned(row, widths, right)) + "\n" for row in texts)

    def _cut(self, line: str) -> str:
        if self._columns_max is None or cell_width(line) <= self._columns_max:
            return line
        from rich.cells import set_cell_size

        return set_cell_size(line, self._columns_max - 1) + "…"


def _has_bounds(statement: Statement) -> bool:
    if set(BOUNDS) & set(statement.columns):
        return True
    own = () if statement.relation is not None else statement.plan.outputs
    return any(isinstance(expr, WindowBound) for _, expr in own)


def writer(
    kind: str,
    out: TextIO,
    statement: Statement,
    *,
    bold: bool,
    columns_max: int | None = None,
    file: ParquetRows | None = None,
) -> AnswerWriter:
    """Return the writer for `-o kind`; `file` receives the rows of -o parquet."""
    if file is not None:
        return ParquetWriter(file, statement)
    if kind == "json":
        return JsonWriter(out)
    if kind == "table":
        return TableWriter(out, statement, bold=bold, columns_max=columns_max)
    return RowsWriter(kind, out, statement)


def cell_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
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
    return printable(value_text(value))

"""Formats of rows for people and programs: TSV, Markdown, one value per line, and one JSON object per row.

Values of logs may contain control characters. The formats for people (`markdown`, `vertical`) escape them,
because a terminal would interpret them. The formats for programs contain exact values. In particular, CSV
does not change cells that begin with `=`, `+`, `-` or `@`, so a spreadsheet must import them as text.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TextIO

import msgspec

from elfmesh.ql.values.row_json import encode_json
from elfmesh.text import CSV_END, printable


class RowFormat(Protocol):
    """Interface of the formats."""

    def write(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write rows; a new heading if the columns differ from those of the call before."""
        ...


def value_text(value: Any) -> str:
    """Return a value as text: lists, objects and booleans as JSON, null as nothing.

    A number may be the text that it has in JSON (`msgspec.Raw`).
    """
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return encode_json(value).decode()
    return str(value)


class _PlainEnds:
    """Ends lines with a newline, but quotes cells that contain a carriage return."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, line: str) -> object:
        return self._out.write(line.removesuffix(CSV_END) + "\n")


class Delimited:
    """RFC 4180 with a header line and any delimiter; null is an empty field."""

    def __init__(self, out: TextIO, delimiter: str = ",") -> None:
        self._csv = csv.writer(_PlainEnds(out), lineterminator=CSV_END, delimiter=delimiter)
        self._columns: list[str] | None = None

    def write(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write rows and, if the columns differ from those before, a header line."""
        if self._columns != [*columns]:
            self._columns = [*columns]
            self._csv.writerow(columns)
        self._csv.writerows([value_text(value) for value in row] for row in rows)


class Markdown:
    """A table of GitHub's Markdown, without padding."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._columns: list[str] | None = None

    def write(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write rows and, if the columns differ from those before, a new table."""
        if self._columns != [*columns]:
            self._out.write("\n" if self._columns else "")
            self._columns = [*columns]
            self._line(columns)
            self._out.write("|" + "---|" * len(columns) + "\n")
        for row in rows:
            self._line(row)

    def _line(self, cells: Sequence[Any]) -> None:
        texts = (printable(value_text(cell)).replace("|", "\\|") for cell in cells)
        self._out.write("| " + " | ".join(texts) + " |\n")


class Vertical:
    """One value per line, as the expanded display of psql."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._number = 0

    def write(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write the values of each row, each behind its name."""
        names = [printable(name) for name in columns]
        width = max(map(len, names), default=0)
        for row in rows:
            self._number += 1
            self._out.write(f"-[ {self._number} ]-\n")
            for name, value in zip(names, row, strict=True):
                shown = "NULL" if value is None else printable(value_text(value))
                self._out.write(f"{name:<{width}} | {shown}\n")


class JsonRows:
    """One JSON object per row and line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write the object of each row."""
        for row in rows:
            self._out.write(encode_json(dict(zip(columns, row, strict=True))).decode() + "\n")


ROW_FORMATS = ("csv", "tsv", "markdown", "vertical", "jsonl")
"""Formats with one line or group of lines per row."""


def row_format(name: str, out: TextIO) -> RowFormat:
    """Return the format with one of `ROW_FORMATS` as its name."""
    if name in ("csv", "tsv"):
        return Delimited(out, "\t" if name == "tsv" else ",")
    formats: dict[str, Callable[[TextIO], RowFormat]]
    formats = {"markdown": Markdown, "vertical": Vertical, "jsonl": JsonRows}
    return formats[name](out)

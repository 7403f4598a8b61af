"""Formats whose values are text: csv, a user's regular expression, and what they share with logfmt.

These formats carry no types, so every column is a string and every agent agrees on it whatever it happened
to read first; a query casts where it needs a number. `ts` is read from the declared field or the usual
names, like in JSON. A stream may declare types: then values are cast, and what cannot be cast is null and a
field error.

- csv: RFC 4180 quoting, comma. The columns are declared or the file's first line. A record is a line: a
  quoted newline is not supported. An empty field is null. A line with another number of fields is an error.
- regex: google-re2, unanchored search, named groups are the columns; a group that took no part is null.
"""

from __future__ import annotations

import csv
import io
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.agent.parsers.base import TIMESTAMP_FIELDS, Columns, Parsed, Parser, sample, strings
from elfmesh.agent.parsers.cells import event_times
from elfmesh.agent.parsers.lines import Lines, Positions
from elfmesh.agent.parsers.schema import STRING
from elfmesh.errors import ConfigError
from elfmesh.limits import LINE_BYTES_MAX

Texts = Sequence[str | None]
Kept = list[int] | Positions | None
"""The lines that are good, ascending; None: all."""


class TextParser(Parser):
    """Common part: `ts`, declared types, one row per line that `rows` accepts.

    Args:
        declared: types of columns; all others are strings.
        timestamp: the declared field that `ts` is taken from.
    """

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        declared: Mapping[str, pa.DataType] | None = None,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(source, host)
        self._declared = dict(declared or {})
        self._timestamps = (timestamp,) if timestamp else TIMESTAMP_FIELDS

    @abstractmethod
    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[dict[str, Texts], Kept, list[str]]:
        """The named fields as text, the good lines (None: all) and samples of bad ones."""

    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        """Fields as text, then `ts` and declared types."""
        names = [name for name in wanted if name != "ts"]
        if "ts" in wanted:
            names += [name for name in self._timestamps if name not in names]
        fields, rows, samples = self.texts(lines, names)
        arrays: dict[str, pa.Array] = {}
        field_errors = 0
        for name in wanted:
            if name == "ts":
                arrays[name] = self._event_times(
                    fields, len(lines) if rows is None else len(rows), lines.scan
                )
            elif name in self._declared:
                arrays[name], bad = _cast(strings(fields[name]), self._declared[name])
                field_errors += len(bad)
                samples += [sample(f"{name} is not {self._declared[name]}", str(bad[0]))] if bad else []
            elif name in fields:
                arrays[name] = strings(fields[name])
        return Columns(arrays, None if rows is None else np.array(rows, np.int64), samples, field_errors)

    def _event_times(self, fields: Mapping[str, Texts], rows: int, scan: Any) -> pa.Array:
        found: pa.Array | None = None
        for name in self._timestamps:
            if name not in fields:
                continue
            texts = strings(fields[name])
            found = texts if found is None else pc.coalesce(found, texts)
            if not found.null_count:
                break
        return event_times(strings([None] * rows) if found is None else found, scan)


def _cast(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[str]]:
    """Cast strings; what cannot be cast is null and reported."""
    try:
        return array.cast(kind), []
    except pa.ArrowInvalid:
        pass
    out: list[Any] = []
    bad: list[str] = []
    for value in array:
        try:
            out.append(value.cast(kind).as_py())
        except pa.ArrowInvalid:
            bad.append(value.as_py())
            out.append(None)
    return pa.array(out, kind), bad


class CsvParser(TextParser):
    """Parses comma-separated lines.

    Args:
        header: the column names; None takes the first line that is parsed.
        skip_header: the first line that is parsed repeats the header.
    """

    name = "csv"

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        header: Sequence[str] | None = None,
        skip_header: bool = False,
        declared: Mapping[str, pa.DataType] | None = None,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(source, host, declared=declared, timestamp=timestamp)
        self.header = tuple(header) if header is not None else None
        self._skip = skip_header or header is None

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        """Parse one block; the file's header line is taken off first."""
        if self._skip:
            lines = Lines(block)
            if len(lines):
                if self.header is None:
                    self.header = tuple(name.strip() for name in csv_row(lines.text(0)))
                self._skip = False
                end = int(lines.ends[0])
                newline = lines.data.find(b"\n", end)
                block = lines.data[newline + 1 :] if newline >= 0 else b""
        return super().parse(block, columns)

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[dict[str, Texts], Kept, list[str]]:
        """By pyarrow's reader where no quote is in the block, else by the csv module, line by line."""
        header = self.header or ()
        wanted = [name for name in names if name in header]
        if not len(lines):
            return {name: [] for name in wanted}, [], []
        if b'"' not in lines.data and b"\r" not in lines.data and len(set(header)) == len(header) > 1:
            quick = _csv_block(lines, header, wanted)
            if quick is not None:
                return quick, None, []
        rows: list[int] = []
        records: list[list[str]] = []
        samples: list[str] = []
        for row, text in enumerate(lines.texts()):
            record = csv_row(text)
            if len(record) == len(header):
                rows.append(row)
                records.append(record)
            elif len(samples) < 3:
                samples.append(sample(f"{len(record)} fields instead of {len(header)}", text))
        at = {name: header.index(name) for name in wanted}
        return {name: [record[k] or None for record in records] for name, k in at.items()}, rows, samples


def csv_row(text: str) -> list[str]:
    """The fields of one csv line; [] when the quoting is broken."""
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        return []


csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))


def _csv_block(lines: Lines, header: Sequence[str], wanted: Sequence[str]) -> dict[str, Texts] | None:
    """The whole block at once; None when any line has another number of fields."""
    import pyarrow.csv as arrow_csv

    if not wanted:
        commas = lines.buffer[: len(lines.data)] == ord(",")
        per_line = np.add.reduceat(commas, lines.starts, dtype=np.int64)
        return {} if (per_line == len(header) - 1).all() else None
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(lines.data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=list(header), block_size=len(lines.data) + 1
            ),
            parse_options=arrow_csv.ParseOptions(quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(wanted),
                column_types=dict.fromkeys(wanted, STRING),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    return {name: table[name].combine_chunks() for name in wanted}


class RegexParser(TextParser):
    """Parses lines by a user's pattern.

    Args:
        pattern: RE2 syntax with named groups.
    """

    name = "regex"

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        pattern: str,
        declared: Mapping[str, pa.DataType] | None = None,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(source, host, declared=declared, timestamp=timestamp)
        self._pattern, self.groups = compile_pattern(pattern)
        self._text = pattern
        self._optional = any(sign in pattern for sign in ("|", ")?", ")*", "){"))

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[dict[str, Texts], Kept, list[str]]:
        """All lines at once when every group takes part in every match, else line by line."""
        known = [name for name in names if name in self.groups]
        if len(lines) and not self._optional:
            return self._block(lines, known)
        rows: list[int] = []
        found: list[Any] = []
        samples: list[str] = []
        search = self._pattern.search
        for row, text in enumerate(lines.texts()):
            match = search(text)
            if match is not None:
                rows.append(row)
                found.append(match)
            elif len(samples) < 3:
                samples.append(sample("the pattern does not match", text))
        return {name: [match[name] for match in found] for name in known}, rows, samples

    def _block(self, lines: Lines, known: Sequence[str]) -> tuple[dict[str, Texts], Kept, list[str]]:
        """Arrow's extraction, which is RE2 too but cannot tell an empty group from one that took no part."""
        found = pc.extract_regex(lines.raw(), self._text)
        samples: list[str] = []
        rows: list[int] | None = None
        if found.null_count:
            good = found.is_valid().to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(good).tolist()
            bad = np.flatnonzero(~good)[:3].tolist()
            samples = [sample("the pattern does not match", lines.text(row)) for row in bad]
            found = found.drop_null()
        return {name: found.field(name) for name in known}, rows, samples


def compile_pattern(pattern: str) -> tuple[Any, tuple[str, ...]]:
    """Compile a user's pattern and name its groups.

    Raises:
        ConfigError: not RE2 syntax, or no named group.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ConfigError(
            f"the pattern {pattern!r} is not valid: {reason}",
            where="format regex",
            hint="RE2 syntax: no look-around, no back references; name the columns as (?P<name>...).",
        ) from None
    groups = tuple(sorted(compiled.groupindex, key=compiled.groupindex.__getitem__))
    if not groups:
        raise ConfigError(
            f"the pattern {pattern!r} names no column",
            where="format regex",
            hint="Name the groups: (?P<level>[A-Z]+) (?P<message>.*).",
        )
    return compiled, groups

"""Formats by name: what `--format` and `format =` may say, and the parsers of one stream.

    json | combined | common | logfmt | csv | csv:a,b,c | regex:PATTERN | auto

`auto` looks at the first lines of each file and says what it took them for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.agent.parsers.access import COMBINED_COLUMNS, COMMON_COLUMNS, INTEGERS, AccessParser
from elfmesh.agent.parsers.base import META_COLUMNS, TIMESTAMP, Columns, Parsed, Parser, sample
from elfmesh.agent.parsers.csv_lines import CsvParser, csv_row, header_of
from elfmesh.agent.parsers.json_lines import JsonParser, json_fields
from elfmesh.agent.parsers.lines import Lines
from elfmesh.agent.parsers.logfmt import LogfmtParser, logfmt_fields
from elfmesh.agent.parsers.schema import DECLARABLE, StreamSchema
from elfmesh.agent.parsers.text_fields import RegexParser, compile_pattern
from elfmesh.errors import ConfigError
from elfmesh.text import suggest

NAMES = ("auto", "json", "combined", "common", "logfmt", "csv", "regex")
SNIFF_LINES = 20
SNIFF_SHARE = 0.5
"""At least this share of the first lines must look like a format for it to be chosen."""


class StreamFormat:
    """The declared format of one stream; makes the parser of each of its files.

    Args:
        spec: one of the spellings above.
        host: what `_host` says.
        declared: column types by name: bool, int, float or string.
        timestamp: the field that `ts` is taken from; None tries the usual names.

    Raises:
        ConfigError: unknown format, unknown type, bad pattern.
    """

    def __init__(
        self,
        spec: str = "auto",
        *,
        host: str = "",
        declared: Mapping[str, str] | None = None,
        timestamp: str | None = None,
    ) -> None:
        self.spec = spec
        self.name, _, self._argument = spec.partition(":")
        self._host = host
        self._timestamp = timestamp
        if self.name not in NAMES or (self._argument and self.name not in ("csv", "regex")):
            raise ConfigError(
                f"unknown format {spec!r}", hint=suggest(self.name, NAMES) or f"One of {', '.join(NAMES)}."
            )
        for column, kind in (declared or {}).items():
            if kind not in DECLARABLE:
                raise ConfigError(
                    f"column {column} is declared as {kind!r}", hint=f"One of {', '.join(DECLARABLE)}."
                )
        self._declared = {column: DECLARABLE[kind] for column, kind in (declared or {}).items()}
        self.schema = StreamSchema(self._declared)
        if self.name == "regex":
            compile_pattern(self._argument)
        names = self._argument.split(",") if self.name == "csv" else []
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"the column {twice[0]!r} is named twice", where=f"format {spec}", hint="Name each once."
            )

    def parser(self, source: str = "", *, head: bytes | None = None) -> Parser:
        """The parser of one file.

        Args:
            source: what `_source` says.
            head: the first bytes of the file when reading starts in its middle: the csv header is there, and
                `auto` decides by it. None when reading starts at the beginning.
        """
        if self.name == "auto":
            return AutoParser(self, source, self._host, head)
        return self.named_parser(self.name, source, head)

    def named_parser(self, name: str, source: str, head: bytes | None) -> Parser:
        """A parser of a definite format."""
        if name in ("combined", "common"):
            return AccessParser(source, self._host, combined=name == "combined")
        if name == "json":
            return JsonParser(source, self._host, schema=self.schema, timestamp=self._timestamp)
        if name == "logfmt":
            return LogfmtParser(source, self._host, declared=self._declared, timestamp=self._timestamp)
        if name == "regex":
            return RegexParser(
                source,
                self._host,
                pattern=self._argument,
                declared=self._declared,
                timestamp=self._timestamp,
            )
        header: Sequence[str] | None = self._argument.split(",") if self._argument else None
        if header is None and head is not None:
            first = Lines(head)
            header = header_of(first) if len(first) else None
        return CsvParser(
            source, self._host, header=header, declared=self._declared, timestamp=self._timestamp
        )


class AutoParser(Parser):
    """Chooses a format by the first lines and then is that format.

    Attributes:
        chosen: the format's name; "" while nothing could be told. Until then every line is an error.
    """

    name = "auto"

    def __init__(self, formats: StreamFormat, source: str, host: str, head: bytes | None) -> None:
        super().__init__(source, host)
        self._formats = formats
        self._head = head
        self._inner: Parser | None = None

    @property
    def chosen(self) -> str:
        """What the lines were taken for."""
        return self._inner.name if self._inner else ""

    @property
    def inner(self) -> Parser | None:
        """The parser that was chosen."""
        return self._inner

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        """Parse one block; the first one that has lines decides."""
        self.choose(block)
        return self._inner.parse(block, columns) if self._inner else super().parse(block, columns)

    def choose(self, block: bytes) -> None:
        """Decide by a block, if nothing has been told yet; none of its lines is used up."""
        if self._inner is None:
            name = sniff(self._head if self._head else block)
            if name:
                self._inner = self._formats.named_parser(name, self.source, self._head)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        """Every line is an error: nobody knows what it is."""
        samples = [sample("not in any known log format", lines.text(0))] if len(lines) else []
        return Columns({name: pa.nulls(0) for name in wanted}, np.array([], np.int64), samples)


_ACCESS_LINE = re.compile(r'[^ ]+ [^ ]+ .+? \[.*?\] ".*?" [0-9]{3} (?:[0-9]+|-)(?P<more> ")?')


def _looks_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _looks_combined(text: str) -> bool:
    match = _ACCESS_LINE.match(text)
    return bool(match and match["more"])


def _looks_common(text: str) -> bool:
    return bool(_ACCESS_LINE.match(text))


def _looks_logfmt(text: str) -> bool:
    fields = logfmt_fields(text)
    return bool(fields) and text.count("=") >= 2 and "=" in text.split(" ", 1)[0]


_TESTS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("json", _looks_json),
    ("combined", _looks_combined),
    ("common", _looks_common),
    ("logfmt", _looks_logfmt),
)


def sniff(block: bytes) -> str:
    """The format the first lines of a block look like; "" when it cannot be told."""
    lines = Lines(block[: 64 << 10] if b"\n" in block[: 64 << 10] else block)
    texts = [lines.text(row) for row in range(min(len(lines), SNIFF_LINES))]
    if not texts:
        return ""
    for name, looks in _TESTS:
        if sum(map(looks, texts)) >= max(1, SNIFF_SHARE * len(texts)):
            return name
    widths = {len(csv_row(text)) for text in texts}
    header = csv_row(texts[0])
    named = all(re.fullmatch(r"\s*[A-Za-z_@][\w .@-]*", name) for name in header)
    return "csv" if len(widths) == 1 and len(header) > 1 and named else ""


def known_columns(spec: str) -> tuple[str, ...] | None:
    """The columns of a format that are known before any data is seen; None when only the data tells."""
    schema = static_schema(spec)
    return None if schema is None else tuple(schema.names)


def static_schema(spec: str) -> pa.Schema | None:
    """The same as a schema with types, for refusing unknown columns before any data is read."""
    name, _, argument = spec.partition(":")
    fields: list[tuple[str, pa.DataType]]
    if name in ("combined", "common"):
        names = COMBINED_COLUMNS if name == "combined" else COMMON_COLUMNS
        fields = [
            (column, TIMESTAMP if column == "ts" else pa.int64() if column in INTEGERS else pa.string())
            for column in names
        ]
    elif name == "regex":
        fields = _with_ts(compile_pattern(argument)[1])
    elif name == "csv" and argument:
        fields = _with_ts(tuple(argument.split(",")))
    else:
        return None
    return pa.schema(fields + [(column, pa.string()) for column in META_COLUMNS])


def _with_ts(names: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names if name != "ts"] + [("ts", TIMESTAMP)]


def found_columns(parser: Parser) -> tuple[str, ...] | None:
    """The columns a parser has learnt from its data (a csv header, the format `auto` chose); None if open."""
    if isinstance(parser, AutoParser):
        if parser.inner is None:
            return None
        parser = parser.inner
    if isinstance(parser, AccessParser):
        return known_columns(parser.name)
    if isinstance(parser, CsvParser) and parser.header is not None:
        return (*parser.header, "ts", *META_COLUMNS)
    return None


def discover_columns(parser: Parser, block: bytes) -> tuple[str, ...]:
    """What `SELECT *` means: a format's own columns, or the fields in a stream's first block.

    `_raw`, `_source` and `_host` are not among them. A json or logfmt stream may bring other fields later;
    they are not in the answer.
    """
    if isinstance(parser, AutoParser):
        parser.choose(block)  # not by parsing: that would take the header off a csv file
        parser = parser.inner or parser
    if isinstance(parser, AccessParser):
        return COMBINED_COLUMNS if parser.name == "combined" else COMMON_COLUMNS
    if isinstance(parser, RegexParser):
        return parser.groups
    if isinstance(parser, CsvParser):
        lines = Lines(block)
        return parser.header or (header_of(lines) if len(lines) else ())
    names: dict[str, None] = {}
    for text in Lines(block).texts():
        if isinstance(parser, JsonParser):
            names.update(dict.fromkeys(json_fields(text)))
        elif isinstance(parser, LogfmtParser):
            names.update(dict.fromkeys(logfmt_fields(text) or ()))
    return tuple(names)

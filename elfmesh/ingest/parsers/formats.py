"""Formats by name, for `--format` and `format =`, and the parsers of one stream.

`auto` decides by the first lines of each file. Other names are in `kinds.KINDS`, some with an argument after
a colon (`csv:a,b,c`, `regex:PATTERN`, `grok:PATTERN`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import META_COLUMNS, TIMESTAMP, Parsed, ParsedColumns, Parser, sample
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.kinds import KINDS, Kind, Request
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.schema import DECLARABLE, StreamSchema
from elfmesh.ingest.parsers.sniff import candidates, sniff
from elfmesh.ingest.parsers.text_fields import TextOptions
from elfmesh.ingest.parsers.time_pattern import WHERE
from elfmesh.text import suggest

AUTO = "auto"
NAMES = (AUTO, *KINDS)
DIRECTIVES = {"w3c": b"#Fields:", AUTO: b"#Fields:"}


class StreamFormat:
    """Declared format of one stream; makes the parsers of its files.

    Args:
        declared: column types by name: bool, int, float or string.
        timestamp: the field of `ts`; None tries the usual names.
        clock: interpretation of times without a zone or a year.
        patterns: grok patterns by name, which override the built-in ones.
        framing: rule for records of several lines; None: the format's own.
    """

    def __init__(
        self,
        spec: str = AUTO,
        *,
        host: str = "",
        declared: Mapping[str, str] | None = None,
        timestamp: str | None = None,
        clock: LocalClock | None = None,
        patterns: Mapping[str, str] | None = None,
        framing: Framing | None = None,
    ) -> None:
        self.spec = spec
        self.name, colon, argument = spec.partition(":")
        for column, kind in (declared or {}).items():
            if kind not in DECLARABLE:
                raise ConfigError(
                    f"column {column} is declared as {kind!r}", hint=f"One of {', '.join(DECLARABLE)}."
                )
        types = {column: DECLARABLE[kind] for column, kind in (declared or {}).items()}
        self.schema = StreamSchema(types)
        self._request = Request(
            argument, TextOptions(types, timestamp, clock or LocalClock()), self.schema, host, patterns or {}
        )
        if clock is not None and clock.pattern:
            self._check_pattern()
        self._framing = framing
        self.reads_lines = timestamp is not None or framing is not None
        """Whether a setting states how lines are read, which files of columns do not have."""
        self.hide: Callable[[Parser, Parsed], Parsed] | None = None
        """Redacts hidden fields in the results of its parsers; see `Parser`."""
        _check_argument(spec, self.name, bool(argument), bool(colon))
        self.static_schema = self._static_schema()
        """The columns with their types if they do not depend on the data; else None."""
        self.framing = framing
        """Rule for records of several lines, for the reader that cuts blocks; None: each line is a record."""
        if self.name != AUTO:
            self.framing = self.named_parser(self.name, "", None).framing
        elif framing is None:
            self.framing = AutoFraming(self)
        self.directive = DIRECTIVES.get(self.name, b"")
        """Prefix of lines that describe the following lines; b"" if the format has none."""

    def _check_pattern(self) -> None:
        """Refuse a pattern that `ts` of this format would not be read by."""
        if self.name == AUTO:
            message = "a time pattern needs a format with a name, because auto may recognise one without"
            raise ConfigError(message, where=WHERE, hint="Write format = json, csv, regex:PATTERN, ...")
        if self.name in KINDS and not KINDS[self.name].make(self._request).reads_patterns:
            raise ConfigError(
                f"times of the format {self.name} have one form", where=WHERE, hint="Leave the pattern out."
            )

    def parser(self, source: str = "", *, head: bytes | None = None) -> Parser:
        """Return the parser of one file.

        If reading starts in the middle of a file, `head` has the file's first bytes, which contain the csv
        header and are used by `auto`. None if reading starts at the beginning.
        """
        if self.name == AUTO:
            parser: Parser = AutoParser(self, source, self._request.host, head)
        else:
            parser = self.named_parser(self.name, source, head)
        parser.hide = self.hide
        return parser

    def named_parser(self, name: str, source: str, head: bytes | None) -> Parser:
        request = self._request
        given = Request(
            request.argument if name == self.name else "",
            request.options,
            request.schema,
            request.host,
            request.patterns,
            source,
            head,
        )
        parser = KINDS[name].make(given)
        if parser.framing is None:
            parser.framing = self._framing
        return parser

    def _static_schema(self) -> pa.Schema | None:
        known = None if self.name == AUTO else KINDS[self.name].columns(self._request)
        if known is None:
            return None
        names, types = known
        fields = [(name, types.get(name, pa.string())) for name in names if name != "ts"]
        place = names.index("ts") if "ts" in names else len(fields)
        fields.insert(place, ("ts", TIMESTAMP))
        return pa.schema(fields + [(name, pa.string()) for name in META_COLUMNS])


def _check_argument(spec: str, name: str, given: bool, colon: bool) -> None:
    kind: Kind | None = KINDS.get(name)
    if name != AUTO and kind is None:
        hint = suggest(name, NAMES) or f"One of {', '.join(NAMES)}."
        if name == "parquet":
            hint = "`elf run` recognises Parquet files, so leave the format out; agents read lines."
        raise ConfigError(f"unknown format {spec!r}", hint=hint)
    wants = kind.argument if kind is not None else ""
    if colon and not wants:
        raise ConfigError(
            f"unknown format {spec!r}", hint=f"{name} takes no argument. One of {', '.join(NAMES)}."
        )
    if wants == "!" and not given:
        raise ConfigError(
            f"the format {name} needs an argument", where="format", hint=f"Write {name}:PATTERN."
        )


class AutoFraming(Framing):
    """Framing of the format that `auto` chooses for a file."""

    def __init__(self, formats: StreamFormat) -> None:
        super().__init__()
        self._formats = formats
        self._chosen: Framing | None = None
        self._decided = False

    def fresh(self) -> Framing:
        return AutoFraming(self._formats)

    def complete(self, data: bytes) -> int:
        if not self._decided and (name := sniff(data)):
            self._chosen = self._formats.named_parser(name, "", None).framing
            self._decided = True
        return len(data) if self._chosen is None else self._chosen.complete(data)


class AutoParser(Parser):
    """Parser that chooses a format by the first lines of a file.

    Until `chosen` is set, every line is an error; `candidates` are the possible formats of the last block.
    """

    name = AUTO

    def __init__(self, formats: StreamFormat, source: str, host: str, head: bytes | None) -> None:
        super().__init__(source, host)
        self._formats = formats
        self._head = head
        self._inner: Parser | None = None
        self.candidates: tuple[str, ...] = ()

    @property
    def side_by_side(self) -> bool:
        return self._inner is not None and self._inner.side_by_side

    @property
    def directed(self) -> bool:  # type: ignore[override]  # of the chosen format
        return self._inner is None or self._inner.directed

    def branch(self) -> AutoParser:
        other = copy(self)
        other._inner = None if self._inner is None else self._inner.branch()
        return other

    def accept(self, branch: Parser) -> bool:
        inner = branch.inner if isinstance(branch, AutoParser) else None
        return inner is not None and self._inner is not None and self._inner.accept(inner)

    @property
    def chosen(self) -> str:
        return self._inner.name if self._inner else ""

    @property
    def inner(self) -> Parser | None:
        return self._inner

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        self.choose(block)
        if self._inner is None:
            return super().parse(block, columns)
        self._inner.source = self.source
        return self._inner.parse(block, columns)

    def choose(self, block: bytes) -> None:
        """Choose a format by a block, unless one is chosen already; does not consume the block."""
        if self._inner is None:
            name = sniff(self._head or b"") or sniff(block)  # the file's first lines may not match any format
            if name:
                self._inner = self._formats.named_parser(name, self.source, self._head)
            else:
                self.candidates = candidates(block)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        why = "not in any known log format"
        if self.candidates:
            why = f"may be {' or '.join(self.candidates)}: name the format"
        samples = [sample(why, lines.text(0))] if len(lines) else []
        return ParsedColumns({name: pa.nulls(0) for name in wanted}, np.array([], np.int64), samples)


def known_columns(spec: str) -> tuple[str, ...] | None:
    """Return the columns of a format that do not depend on the data; None if they do."""
    schema = static_schema(spec)
    return None if schema is None else tuple(schema.names)


def static_schema(spec: str) -> pa.Schema | None:
    """Return these columns with types, to refuse unknown columns before any data is read."""
    return StreamFormat(spec).static_schema


def found_columns(parser: Parser) -> tuple[str, ...] | None:
    """Return the columns that a parser found in its data (a csv header, the format `auto` chose).

    Returns None while they are not known.
    """
    inner = parser.inner if isinstance(parser, AutoParser) else parser
    known = None if inner is None else inner.known_columns()
    return None if known is None else tuple(dict.fromkeys((*known, "ts", *META_COLUMNS)))


def discover_columns(parser: Parser, block: bytes) -> tuple[str, ...]:
    """Return the columns of `SELECT *`: a format's own columns, or the fields in a stream's first block.

    They do not include `_raw`, `_source` and `_host`, nor fields that later records add in json or logfmt.
    """
    if isinstance(parser, AutoParser):
        parser.choose(block)  # parsing would consume the header of a csv file
        parser = parser.inner or parser
    known = parser.known_columns() or parser.header_columns(block)
    if known is not None:
        return known
    names: dict[str, None] = {}
    for text in Lines(block).texts():
        names.update(dict.fromkeys(parser.line_fields(text)))
    return tuple(names)

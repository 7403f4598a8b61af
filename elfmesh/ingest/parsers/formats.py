"""Formats by name: what `--format` and `format =` may say, and the parsers of one stream.

`auto` decides by the first lines of each file; a definite format is a name of `kinds.KINDS`, some with an
argument behind a colon (`csv:a,b,c`, `regex:PATTERN`, `grok:PATTERN`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import META_COLUMNS, TIMESTAMP, Columns, Parsed, Parser, sample
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.kinds import KINDS, Kind, Request
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.schema import DECLARABLE, StreamSchema
from elfmesh.ingest.parsers.sniff import candidates, sniff
from elfmesh.ingest.parsers.text_fields import TextOptions
from elfmesh.text import suggest

AUTO = "auto"
NAMES = (AUTO, *KINDS)
DIRECTIVES = {"w3c": b"#Fields:", AUTO: b"#Fields:"}


class StreamFormat:
    """The declared format of one stream; makes the parser of each of its files.

    Args:
        declared: column types by name: bool, int, float or string.
        timestamp: the field that `ts` is taken from; None tries the usual names.
        clock: what times mean that name no zone or no year.
        patterns: grok patterns by name, asked before ours.
        framing: which lines are one record; None: what the format says.
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
        self._framing = framing
        self.hide: Callable[[Parser, Parsed], Parsed] | None = None
        """What blanks values in what its parsers give; see `Parser`."""
        _check_argument(spec, self.name, bool(argument), bool(colon))
        self.static_schema = self._static_schema()
        """The columns with their types, where they are known before any data is seen; else None."""
        self.framing = framing
        """Which lines are one record, for the reader that cuts blocks; None: each is one."""
        if self.name != AUTO:
            self.framing = self.named_parser(self.name, "", None).framing
        elif framing is None:
            self.framing = AutoFraming(self)
        self.directive = DIRECTIVES.get(self.name, b"")
        """How lines begin that say what the lines behind them mean; b"": the format has none."""

    def parser(self, source: str = "", *, head: bytes | None = None) -> Parser:
        """The parser of one file.

        `head` has the first bytes of the file when reading starts in its middle: the csv header is there, and
        `auto` decides by it. None when reading starts at the beginning.
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
        raise ConfigError(
            f"unknown format {spec!r}", hint=suggest(name, NAMES) or f"One of {', '.join(NAMES)}."
        )
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
    """The framing of the format that the first lines of a file are taken for."""

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
    """Chooses a format by the first lines and then is that format.

    Until `chosen` is set every line is an error; `candidates` are the formats that the last block may be in.
    """

    name = AUTO

    def __init__(self, formats: StreamFormat, source: str, host: str, head: bytes | None) -> None:
        super().__init__(source, host)
        self._formats = formats
        self._head = head
        self._inner: Parser | None = None
        self.candidates: tuple[str, ...] = ()

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
        """Decide by a block, if nothing has been told yet; none of its lines is used up."""
        if self._inner is None:
            name = sniff(self._head or b"") or sniff(block)  # a file may begin with what no format has
            if name:
                self._inner = self._formats.named_parser(name, self.source, self._head)
            else:
                self.candidates = candidates(block)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        why = "not in any known log format"
        if self.candidates:
            why = f"may be {' or '.join(self.candidates)}: name the format"
        samples = [sample(why, lines.text(0))] if len(lines) else []
        return Columns({name: pa.nulls(0) for name in wanted}, np.array([], np.int64), samples)


def known_columns(spec: str) -> tuple[str, ...] | None:
    """The columns of a format that are known before any data is seen; None when only the data tells."""
    schema = static_schema(spec)
    return None if schema is None else tuple(schema.names)


def static_schema(spec: str) -> pa.Schema | None:
    """The same as a schema with types, for refusing unknown columns before any data is read."""
    return StreamFormat(spec).static_schema


def found_columns(parser: Parser) -> tuple[str, ...] | None:
    """The columns a parser has learnt from its data (a csv header, the format `auto` chose); None if open."""
    inner = parser.inner if isinstance(parser, AutoParser) else parser
    known = None if inner is None else inner.known_columns()
    return None if known is None else tuple(dict.fromkeys((*known, "ts", *META_COLUMNS)))


def discover_columns(parser: Parser, block: bytes) -> tuple[str, ...]:
    """What `SELECT *` means: a format's own columns, or the fields in a stream's first block.

    `_raw`, `_source` and `_host` are not among them, nor fields that a json or logfmt stream brings later.
    """
    if isinstance(parser, AutoParser):
        parser.choose(block)  # not by parsing: that would take the header off a csv file
        parser = parser.inner or parser
    known = parser.known_columns() or parser.header_columns(block)
    if known is not None:
        return known
    names: dict[str, None] = {}
    for text in Lines(block).texts():
        names.update(dict.fromkeys(parser.line_fields(text)))
    return tuple(names)

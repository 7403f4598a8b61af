"""Table of formats: for each name its parser, its recognition, and its columns if they are fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, field

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.access import INTEGERS, AccessParser, VhostParser
from elfmesh.ingest.parsers.base import Parser
from elfmesh.ingest.parsers.containers import CONTAINER_COLUMNS, cri_parser, docker_parser
from elfmesh.ingest.parsers.csv_lines import COMMA, TAB, CsvParser, header_of
from elfmesh.ingest.parsers.journal import ExportParser, JournaldParser
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.logfmt import LogfmtParser
from elfmesh.ingest.parsers.pairs import CefParser, KvParser, LeefParser, kv_separators
from elfmesh.ingest.parsers.pattern_formats.aws import ALB, flow_format
from elfmesh.ingest.parsers.pattern_formats.grok import compile_grok
from elfmesh.ingest.parsers.pattern_formats.patterns import PatternParser
from elfmesh.ingest.parsers.pattern_formats.servers import TABLES, PatternTable
from elfmesh.ingest.parsers.pattern_formats.templates import (
    PRESETS,
    TemplateParser,
    compile_template,
)
from elfmesh.ingest.parsers.plugin_formats import PluginParser, types_of, usable_formats
from elfmesh.ingest.parsers.schema import StreamSchema
from elfmesh.ingest.parsers.syslog import SYSLOG_COLUMNS, SYSLOG_TYPES, SyslogParser
from elfmesh.ingest.parsers.text_fields import RegexParser, TextOptions, compile_pattern
from elfmesh.ingest.parsers.w3c import W3cParser
from elfmesh.plugins import Plugin

Names = tuple[str, ...]
Types = Mapping[str, pa.DataType]


class Request(Struct):
    """Arguments for the construction of a parser.

    `argument` follows the format's name and a colon. `head` has the first bytes of the file if reading begins
    in its middle.
    """

    argument: str
    options: TextOptions
    schema: StreamSchema
    host: str = ""
    patterns: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    head: bytes | None = None


class Kind(Struct, frozen=True):
    """Format; its name may ("?"), must ("!") or must not ("") have an argument."""

    make: Callable[[Request], Parser]
    columns: Callable[[Request], tuple[Names, Types] | None] = lambda request: None
    argument: str = ""


def _access(parser: type[AccessParser], combined: bool) -> Kind:
    names = parser(combined=combined).known_columns() or ()
    return Kind(
        lambda request: parser(request.source, request.host, combined=combined),
        lambda request: (names, dict.fromkeys((*INTEGERS, "port"), pa.int64())),
    )


def _json(parser: type[JsonParser]) -> Kind:
    return Kind(
        lambda request: parser(
            request.source,
            request.host,
            schema=request.schema,
            timestamp=request.options.timestamp,
            clock=request.options.clock,
        )
    )


def _separated(delimiter: str) -> Kind:
    def make(request: Request) -> Parser:
        header: Sequence[str] | None = request.argument.split(",") if request.argument else None
        if header is None and request.head is not None:
            first = Lines(request.head)
            header = header_of(first, delimiter) if len(first) else None
        return CsvParser(request.source, request.host, request.options, header=header, delimiter=delimiter)

    def columns(request: Request) -> tuple[Names, Types] | None:
        names = tuple(request.argument.split(",")) if request.argument else ()
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"the column {twice[0]!r} is named twice",
                where=f"format csv:{request.argument}",
                hint="Name each once.",
            )
        return (names, request.options.declared) if names else None

    return Kind(make, columns, "?")


def _table(name: str, table: PatternTable) -> Kind:
    def make(request: Request) -> Parser:
        return PatternParser(
            request.source,
            request.host,
            request.options,
            name=name,
            patterns=table.patterns,
            names=table.names,
            types=table.types,
            dashes=table.dashes,
        )

    return Kind(make, lambda request: (table.names, table.types))


def _template(name: str, server: str, text: str = "") -> Kind:
    def make(request: Request) -> Parser:
        template = compile_template(server, text or request.argument)
        return TemplateParser(request.source, request.host, request.options, name=name, template=template)

    def columns(request: Request) -> tuple[Names, Types]:
        found = compile_template(server, text or request.argument)
        return found.names, found.types

    return Kind(make, columns, "" if text else "!")


def _grok() -> Kind:
    def make(request: Request) -> Parser:
        grok = compile_grok(request.argument, request.patterns)
        return PatternParser(
            request.source,
            request.host,
            request.options,
            name="grok",
            patterns=(grok.pattern,),
            names=grok.names,
            types=grok.types,
        )

    def columns(request: Request) -> tuple[Names, Types]:
        grok = compile_grok(request.argument, request.patterns)
        return grok.names, {**grok.types, **request.options.declared}

    return Kind(make, columns, "!")


def _flow() -> Kind:
    def make(request: Request) -> Parser:
        flow = flow_format(request.argument)
        return PatternParser(
            request.source,
            request.host,
            request.options,
            name="aws_vpc_flow",
            patterns=(flow.pattern,),
            names=flow.names,
            types=flow.types,
            dashes=flow.names,
        )

    def columns(request: Request) -> tuple[Names, Types]:
        flow = flow_format(request.argument)
        return flow.names, {**flow.types, **request.options.declared}

    return Kind(make, columns, "?")


def _kv(request: Request) -> Parser:
    assign, between = kv_separators(request.argument)
    return KvParser(request.source, request.host, request.options, assign=assign, between=between)


def _regex() -> Kind:
    def make(request: Request) -> Parser:
        return RegexParser(request.source, request.host, request.options, pattern=request.argument)

    return Kind(make, lambda request: (compile_pattern(request.argument)[1], request.options.declared), "!")


def _plain(parser: Callable[[str, str, TextOptions], Parser], *columns: str) -> Kind:
    known: tuple[Names, Types] | None = (columns, {}) if columns else None
    return Kind(lambda request: parser(request.source, request.host, request.options), lambda request: known)


def _plugin(plugin: Plugin) -> Kind:
    def make(request: Request) -> Parser:
        place = (request.source, request.host, request.options)
        return PluginParser(*place, plugin=plugin, argument=request.argument)

    def columns(request: Request) -> tuple[Names, Types]:
        return tuple(plugin.made.columns), {**types_of(plugin), **request.options.declared}

    return Kind(make, columns, getattr(plugin.made, "argument", ""))


_OURS: Mapping[str, Kind] = {
    "json": _json(JsonParser),
    "combined": _access(AccessParser, True),
    "common": _access(AccessParser, False),
    "vhost_combined": _access(VhostParser, True),
    "vhost_common": _access(VhostParser, False),
    "logfmt": _plain(LogfmtParser),
    "csv": _separated(COMMA),
    "tsv": _separated(TAB),
    "regex": _regex(),
    "grok": _grok(),
    "kv": Kind(_kv, argument="?"),
    "syslog": Kind(
        lambda request: SyslogParser(request.source, request.host, request.options),
        lambda request: (SYSLOG_COLUMNS, SYSLOG_TYPES),
    ),
    **{name: _table(name, table) for name, table in TABLES.items()},
    "aws_alb": _table("aws_alb", ALB),
    "aws_vpc_flow": _flow(),
    "nginx": _template("nginx", "nginx"),
    "apache": _template("apache", "apache"),
    **{name: _template(name, server, text) for name, (server, text) in PRESETS.items()},
    "cef": _plain(CefParser),
    "leef": _plain(LeefParser),
    "w3c": Kind(lambda request: W3cParser(request.source, request.host, request.options, head=request.head)),
    "cri": _plain(cri_parser, *CONTAINER_COLUMNS),
    "docker": _plain(docker_parser, *CONTAINER_COLUMNS),
    "journald": _json(JournaldParser),
    "journald_export": _plain(ExportParser),
}
KINDS: Mapping[str, Kind] = {
    **_OURS,
    **{name: _plugin(plugin) for name, plugin in usable_formats(_OURS).items()},
}
"""All formats except `auto`: ours, then those of plug-ins."""

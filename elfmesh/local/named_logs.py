"""Assigns logs to the streams of a query, for `elf run`: the given logs, or those that `--stream` names."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.lookups import LookupTables
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig, parse_stream
from elfmesh.local.parquet_input import parquet_tables
from elfmesh.ql import Statement
from elfmesh.ql.plan.scope import NO_FROM
from elfmesh.text import suggest

Logs: TypeAlias = tuple[Sequence[str], StreamFormat]
"""Files and their format."""


def logs_of(
    statement: Statement, jobs: Collection[str], named: Mapping[str, Logs], given: Logs
) -> dict[str, Logs]:
    """Return the logs of every stream that a statement reads.

    `jobs` are streams that are results of jobs. `named` contains logs by stream; if it is empty, the only
    stream refers to `given`, whatever its name is.

    Raises:
        UsageError: a stream has no logs.
        QueryError: logs are given, and no SELECT has a FROM.
    """
    streams = [name for name in statement.streams if name not in jobs]
    if not named:
        if given[0] and not statement.streams:
            hint = "Add FROM log; a query without FROM has one row, and takes no LOG."
            raise statement.origin.error(NO_FROM, statement.offset, hint)
        if len(streams) > 1:
            hint = f"Assign log files to each stream: --stream {streams[0]}=PATH[,format=FORMAT]."
            raise UsageError(f"the query reads several streams: {', '.join(streams)}", hint=hint)
        return dict.fromkeys(streams, given)
    for name in streams:
        if name not in named:
            hint = suggest(name, named) or f"There are {', '.join(named)}."
            raise UsageError(f"--stream: no stream is named {name}, which the query reads", hint=hint)
    return {name: named[name] for name in streams}


def declared_columns(logs: Mapping[str, Logs]) -> dict[str, tuple[str, ...]]:
    """Return the columns of the streams whose formats declare them, or whose files are Parquet files."""
    schemas = {name: formats.static_schema for name, (_, formats) in logs.items()}
    schemas |= {name: table.schema for name, table in parquet_tables(logs).items()}
    return {name: tuple(schema.names) for name, schema in schemas.items() if schema is not None}


def read_streams(options: Sequence[str], paths_of: Callable[[Sequence[str]], list[str]]) -> dict[str, Logs]:
    """Parse `--stream NAME=PATH[,format=F]...`. All queries share the formats."""
    read = _configs(options, "--stream").items()
    for name, config in read:
        if not config.path:
            raise ConfigError(f"{name} is not a file", hint="elf run reads files; an agent can listen.")
    host = socket.gethostname()
    return {name: (paths_of([config.path]), format_of(config, host=host)) for name, config in read}


def read_lookups(options: Sequence[str]) -> LookupTables:
    """Parse `--lookup NAME=PATH[,format=F]...`. Raises as `read_streams`."""
    return LookupTables(_configs(options, "--lookup"))


def _configs(options: Sequence[str], option: str) -> dict[str, StreamConfig]:
    found: dict[str, StreamConfig] = {}
    for text in options:
        name, settings = parse_stream(text, option)
        if name in found:
            raise UsageError(
                f"{option}: {name} is given twice", hint="The path of a stream may be a pattern."
            )
        try:
            found[name] = msgspec.convert(settings, StreamConfig, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(str(error)) from None
    return found

"""Settings of one stream: `[streams.NAME]` of agent.toml, and `--stream` on the command line.

Owns the names, defaults and checks of these settings. Opens no files or sockets.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Annotated, Literal

import msgspec

from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.archive_settings import ArchiveConfig, check_archive
from elfmesh.ingest.inputs.address import parse_listen
from elfmesh.ingest.inputs.kafka_config import KafkaInput, check_kafka
from elfmesh.text import suggest
from elfmesh.units import parse_duration_us, parse_size

SPOOL_BYTES_MIN = 64_000_000
"""Minimum size of a spool; a smaller one could not hold the body of an HTTP request."""

_MATCH = re.compile(r"_{0,2}[A-Z0-9][A-Z0-9_]*=[^\x00\n]*")
_LISTEN = re.compile(r"(?:udp|tcp|http|otlp|otlp-grpc|unix|unix-stream|program)://")
_OPTIONS = (
    "format",
    "read_from",
    "idle",
    "ts",
    "ts_format",
    "timezone",
    "multiline",
    "multiline_timeout",
    "spool",
)
_FREE = ("format", "multiline", "ts_format")
"""Options whose values may contain a comma, a name and an equals sign."""
_STREAM_OPTION = re.compile(rf"(?<!\\),(?=(?:{'|'.join(_OPTIONS)})=)")
_ANY_OPTION = re.compile(r"(?<!\\),([A-Za-z_]\w*)=")


class StreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stream of this host.

    Attributes:
        path: file name or glob pattern; a stream has one of this, `listen`, `journal` and `kafka`.
        listen: udp://HOST:PORT, tcp://HOST:PORT, http://HOST:PORT, otlp://HOST:PORT,
            otlp-grpc://HOST:PORT, unix:///PATH or unix-stream:///PATH;
            program://NAMESPACE/NAME for the inserts of programs of that name.
        journal: matches for the systemd journal, as for journalctl; an empty list is the whole journal.
        kafka: a topic: {servers, topic, partitions, options}.
        spool: disk space under the data directory for the input of `listen`, `journal` and `kafka`.
        format: format of the lines: a name of the page on log formats, or auto.
        read_from: position at which reading of a new file starts.
        idle: time without a new line after which the stream's event time advances with the clock.
        ts: field with the event time; "" is the format's default.
        ts_format: pattern of the event time, in the letters of to_timestamp; "" recognises it.
        timezone: time zone of times that do not specify one.
        year: year of times that do not specify one (RFC 3164); default: by the file's modification time.
        types: column -> bool, int, float or string, for formats without types.
        patterns: name -> pattern, for grok.
        multiline: rule for records of several lines: start:PATTERN, continue:PATTERN, indent, timestamp,
            trace.
        multiline_lines_max: number of lines at which a record ends.
        multiline_bytes_max: number of bytes at which a record ends.
        multiline_timeout: time without growth after which the last record of a file ends.
        on_overload: "wait": reading waits, and nothing is dropped. "shed": reading continues. Blocks without
            memory, and sealed intervals without room in the frame log, are dropped and counted.
        archive: stores the lines as Parquet files; default: they are not stored.
    """

    path: str = ""
    listen: str = ""
    journal: tuple[str, ...] | None = None
    kafka: KafkaInput | None = None
    spool: str = "1 GB"
    format: str = "auto"
    read_from: Literal["beginning", "end"] = "beginning"
    idle: str = "5 s"
    ts: str = ""
    ts_format: str = ""
    timezone: str = "UTC"
    year: int | None = None
    types: dict[str, str] = {}
    patterns: dict[str, str] = {}
    multiline: str = ""
    multiline_lines_max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000
    multiline_bytes_max: str = "1 MB"
    multiline_timeout: str = "1 s"
    on_overload: Literal["wait", "shed"] = "wait"
    archive: ArchiveConfig | None = None

    @property
    def spool_bytes(self) -> int:
        return parse_size(self.spool)

    @property
    def idle_us(self) -> int:
        return parse_duration_us(self.idle)


def parse_stream(text: str, option: str = "--stream") -> tuple[str, dict[str, str]]:
    r"""Parse the name and settings of `--stream name=path[,format=F][,read_from=R][,idle=D][,ts=FIELD]...`.

    `\,` is a comma of the path.

    Raises:
        UsageError: The text does not have this form. `check_stream` checks the values.
    """
    head, *options = _STREAM_OPTION.split(text)
    name, equals, path = head.partition("=")
    if not equals or not path:
        raise UsageError(f"{text!r} is not NAME=PATH", where=option, hint=f"Write {option} NAME=PATH.")
    _refuse_unknown(path, option)
    settings = {"listen" if _LISTEN.match(path) else "path": path.replace("\\,", ",")}
    for given in options:
        key, _, value = given.partition("=")
        if key not in _FREE:
            _refuse_unknown(value, option)
        settings[key] = value
    return name, settings


def _refuse_unknown(text: str, option: str) -> None:
    unknown = _ANY_OPTION.search(text)
    if unknown is not None:
        known = suggest(unknown[1], _OPTIONS) or f"The options are {', '.join(_OPTIONS)}."
        hint = rf"{known} Write \, for a comma of the path."
        raise UsageError(f"{unknown[1]} is not an option", where=option, hint=hint)


def check_stream(stream: StreamConfig, where: str) -> None:
    """Check the values of one stream's settings.

    Args:
        stream: the settings.
        where: file and key of the section, for errors.

    Raises:
        ConfigError: A value is invalid; the message names the key.
    """
    _check_source(stream, where)
    if stream.archive is not None:
        check_archive(stream.archive, f"{where}.archive")
    check_duration(stream.idle, f"{where}.idle")
    check_duration(stream.multiline_timeout, f"{where}.multiline_timeout")
    check_size(stream.multiline_bytes_max, f"{where}.multiline_bytes_max")


def _check_source(stream: StreamConfig, where: str) -> None:
    """Check that a stream has exactly one source, and one that only this host can reach."""
    given = [bool(stream.path), bool(stream.listen), stream.journal is not None, stream.kafka is not None]
    if sum(given) != 1:
        what = "has no source" if not any(given) else "comes from several places"
        raise ConfigError(what, where=where, hint="Specify one of path, listen, journal and kafka.")
    if stream.listen:
        address = parse_listen(stream.listen, where=f"{where}.listen")
        if address.scheme in ("otlp", "otlp-grpc"):
            _check_otlp(stream, where)
            if address.scheme == "otlp-grpc" and importlib.util.find_spec("grpc") is None:
                raise ConfigError(
                    "needs the extra 'otel-grpc', which is not installed",
                    where=f"{where}.listen",
                    hint="Run: pip install 'elfmesh[otel-grpc]'",
                )
    if kafka := stream.kafka:
        check_kafka(kafka.servers, kafka.topic, kafka.options, f"{where}.kafka")
    for match in stream.journal or ():
        if not _MATCH.fullmatch(match):
            raise ConfigError(
                f"{match!r} is not a journal match",
                where=f"{where}.journal",
                hint="As in _SYSTEMD_UNIT=nginx.service.",
            )
    check_size(stream.spool, f"{where}.spool")
    if stream.spool_bytes < SPOOL_BYTES_MIN:
        raise ConfigError(f"is less than {SPOOL_BYTES_MIN // 10**6} MB", where=f"{where}.spool")


def _check_otlp(stream: StreamConfig, where: str) -> None:
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError(
            "needs the extra 'otel', which is not installed",
            where=f"{where}.listen",
            hint="Run: pip install 'elfmesh[otel]'",
        )
    if stream.format not in ("auto", "json"):
        hint = "Leave the format out: the lines of this input are JSON."
        raise ConfigError("is not a format of otlp", where=f"{where}.format", hint=hint)


def check_duration(value: str, where: str) -> None:
    """Check that a value is a duration. Raises ConfigError with `where`."""
    try:
        parse_duration_us(value)
    except ConfigError as error:
        raise ConfigError(error.message, where=where, hint=error.hint) from None


def check_size(value: str, where: str) -> None:
    """Check that a value is a size in bytes. Raises ConfigError with `where`."""
    try:
        parse_size(value)
    except ConfigError as error:
        raise ConfigError(error.message, where=where, hint=error.hint) from None

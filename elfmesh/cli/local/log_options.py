"""Options of the commands that read log files: `elf run` and `elf sql`, and some of them elsewhere.

The module owns the flags and their checks. A wrong value is a usage error that names its option.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from elfmesh.cli.common import Command
from elfmesh.errors import ConfigError, UsageError
from elfmesh.lazy import loading
from elfmesh.units import parse_time, unix_us

MEMORY_BYTES_MIN = 4_000_000
YEAR_HELP = "Year for timestamps that do not specify one. [default: from the file's modification time]"
TS_FORMAT_HELP = "Pattern of the event time, in the letters of to_timestamp: 'MM-dd HH:mm:ss.SSS'."
EXAMPLE = """elf run "SELECT status, count(*) FROM log GROUP BY status" access.log"""


def stream_option(given: str) -> Callable[[Any], Any]:
    """Return the option --stream; `given` is what PATH contains, for its help."""
    return click.option(
        "--stream",
        "streams",
        multiple=True,
        metavar="NAME=PATH[,format=F]",
        help=f"{given}; repeatable. Write \\, for a comma of PATH.",
    )


lookup_option = click.option(
    "--lookup",
    "lookups",
    multiple=True,
    metavar="NAME=PATH[,format=F]",
    help="Table that the query joins as lookup.NAME; repeatable.",
)

_OPTIONS = (
    click.option(
        "--format",
        "log_format",
        default="auto",
        show_default=True,
        metavar="FORMAT",
        help=(
            "Log format: auto, json, combined, syslog, logfmt, csv[:a,b,c], regex:PATTERN, grok:PATTERN, ..."
        ),
    ),
    click.option(
        "--multiline",
        default="",
        metavar="RULE",
        help="Rule that joins lines to records: start:PATTERN, continue:PATTERN, indent, timestamp or trace.",
    ),
    click.option(
        "--timezone",
        default="UTC",
        show_default=True,
        metavar="ZONE",
        help="Time zone for timestamps that do not specify one.",
    ),
    click.option(
        "--ts", default="", metavar="FIELD", help="Field with the event time. [default: the format's]"
    ),
    click.option("--ts-format", default="", metavar="PATTERN", help=TS_FORMAT_HELP),
    click.option("--year", type=int, metavar="YEAR", help=YEAR_HELP),
    click.option(
        "--pattern", "patterns", multiple=True, metavar="NAME=REGEX", help="Grok pattern; repeatable."
    ),
    click.option(
        "--memory",
        default="16 MB",
        show_default=True,
        metavar="SIZE",
        help="Memory for aggregates; larger state is spilled to temporary files.",
    ),
    stream_option("Log files of a stream that the query names; they replace the LOG arguments"),
    lookup_option,
    click.option(
        "--python",
        is_flag=True,
        help="Run the Python functions of QUERY in a separate process. Only for queries that you trust.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads that parse; the rows do not depend on it. [default: one for each core, at most 8]",
    ),
    click.option(
        "--from",
        "begin",
        metavar="T",
        help="Only records of this time or later: ISO 8601, in UTC without an offset, or how long ago it is.",
    ),
    click.option("--to", "end", metavar="T", help="Only records before this time."),
)


def log_options(command: Command) -> Command:
    """Add the options of the logs that a query reads. The command passes their values to `settings_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_of(logs: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `LogRun` that the options give; the format is given with its rules of lines.

    Raises:
        UsageError: an option has a wrong value.
    """
    lines = {name: given[name] for name in ("multiline", "timezone", "year", "ts", "ts_format")}
    lines["patterns"] = dict(map(_pattern, given["patterns"]))
    with loading():
        from elfmesh.local.time_range import TimeRange

        return {
            "format": (given["log_format"], lines),
            "memory_bytes": _size(given["memory"]),
            "streams": given_streams(given["streams"], logs),
            "lookups": given_lookups(given["lookups"]),
            "python": given["python"],
            "threads": given["threads"],
            "times": TimeRange(*times_of(given)),
        }


def times_of(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return --from and --to as microseconds since 1970. Raises UsageError if one of them is no time."""
    now = datetime.datetime.now(datetime.UTC)
    begin, end = given["begin"], given["end"]
    return (
        None if begin is None else unix_us(parse_time(begin, now, "--from")),
        None if end is None else unix_us(parse_time(end, now, "--to")),
    )


@contextlib.contextmanager
def option_of(name: str) -> Iterator[None]:
    """Convert a configuration error to a usage error of an option."""
    try:
        yield
    except ConfigError as error:
        raise UsageError(f"{name}: {error}") from None


def _pattern(text: str) -> tuple[str, str]:
    name, equals, pattern = text.partition("=")
    if not equals or not name or not pattern:
        raise UsageError(f"--pattern: {text!r} is not NAME=REGEX", hint=r"As in --pattern ID=[A-Z]{3}\d+")
    return name, pattern


def _size(text: str) -> int:
    from elfmesh.units import parse_size

    with option_of("--memory"):
        size = parse_size(text)
    if size < MEMORY_BYTES_MIN:
        raise UsageError(f"--memory: {text} is less than {MEMORY_BYTES_MIN // 10**6} MB")
    return size


def given_streams(given: Sequence[str], logs: Sequence[str]) -> Mapping[str, Any]:
    from elfmesh.local.named_logs import read_streams

    if given and logs:
        raise UsageError("--stream and LOG exclude each other", hint="Name every log with --stream.")
    with option_of("--stream"):
        return read_streams(given, log_paths)


def given_lookups(given: Sequence[str]) -> Any:
    from elfmesh.local.named_logs import read_lookups

    with option_of("--lookup"):
        return read_lookups(given)


def log_paths(logs: Sequence[str]) -> list[str]:
    """Return the paths of the logs with patterns expanded. Refuses unreadable files at once."""
    import glob

    from elfmesh.ingest.sources.blocks import check_readable

    if not logs:
        if sys.stdin is not None and sys.stdin.isatty():
            raise UsageError("no logs", hint=f"Give log files, or pipe one in: {EXAMPLE}")
        return ["-"]
    paths: list[str] = []
    for log in logs:
        expanded = sorted(glob.glob(log)) if glob.has_magic(log) and not Path(log).exists() else []  # noqa: PTH207 - Path.glob takes no absolute pattern
        paths += expanded or [log]
    for path in paths:
        check_readable(path)
    return paths


def all_paths(streams: Mapping[str, Any], logs: Sequence[str]) -> list[str]:
    """Return the paths of the given streams, or of the LOG arguments. Raises as `log_paths`."""
    return [path for found, _ in streams.values() for path in found] if streams else log_paths(logs)

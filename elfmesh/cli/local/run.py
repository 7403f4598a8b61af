"""`elf run`: runs a query or a job file over log files in this process.

The module owns the command line, the progress bar and the summary. Rows are written to standard output,
everything else to standard error. Errors are raised as the error tree; `entry` converts them to messages and
exit codes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import output_option
from elfmesh.errors import ConfigError, DataError, QueryError, RuntimeFailure, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.local.embedded import LogRun
    from elfmesh.local.run_stats import RunStats
    from elfmesh.ql import Statement

BAR_AFTER_S = 1.0
MEMORY_BYTES_MIN = 4_000_000
NO_QUERY = "no query"
YEAR_HELP = "Year for timestamps that do not specify one. [default: from the file's modification time]"
EXAMPLE = """elf run "SELECT status, count(*) FROM log GROUP BY status" access.log"""


@click.command("run", short_help="Run a query over log files in one process, without a network.")
@click.argument("arguments", nargs=-1, metavar="[QUERY] [LOG]...")
@click.option(
    "-f", "--file", "job_file", metavar="FILE", help="Read QUERY from FILE; - reads standard input."
)
@click.option(
    "--format",
    "log_format",
    default="auto",
    show_default=True,
    metavar="FORMAT",
    help="Log format: auto, json, combined, syslog, logfmt, csv[:a,b,c], regex:PATTERN, grok:PATTERN, ...",
)
@click.option(
    "--multiline",
    default="",
    metavar="RULE",
    help="Rule that joins lines to records: start:PATTERN, continue:PATTERN, indent, timestamp or trace.",
)
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Time zone for timestamps that do not specify one.",
)
@click.option("--year", type=int, metavar="YEAR", help=YEAR_HELP)
@click.option("--pattern", "patterns", multiple=True, metavar="NAME=REGEX", help="Grok pattern; repeatable.")
@output_option
@click.option(
    "--memory",
    default="16 MB",
    show_default=True,
    metavar="SIZE",
    help="Memory for aggregates; larger state is spilled to temporary files.",
)
@click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="NAME=PATH[,format=F]",
    help="Log files of a stream that the query names; repeatable. It replaces the LOG arguments.",
)
@click.option(
    "--lookup",
    "lookups",
    multiple=True,
    metavar="NAME=PATH[,format=F]",
    help="Table that the query joins as lookup.NAME; repeatable.",
)
@click.option(
    "--python",
    is_flag=True,
    help="Run the Python functions of QUERY in a separate process. Only for queries that you trust.",
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Read only the first N records.")
@click.option("-v", "--verbose", count=True, help="Print more messages; -vv also prints tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def run_command(
    arguments: tuple[str, ...],
    job_file: str | None,
    log_format: str,
    multiline: str,
    timezone: str,
    year: int | None,
    patterns: tuple[str, ...],
    output: str,
    memory: str,
    streams: tuple[str, ...],
    lookups: tuple[str, ...],
    python: bool,
    sample: int | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Run QUERY over LOG files and print the rows of every interval.

    LOG files can be plain, gzip or zstd; - reads standard input. Every name after FROM refers to these files
    unless --stream assigns files to names. The last interval ends with the input. No record is late.
    """
    from elfmesh.cli import entry as cli

    if quiet or cli.verbosity >= 0:
        cli.verbosity = -1 if quiet else max(cli.verbosity, verbose)
    if sys.stdout is None:
        raise RuntimeFailure("standard output is closed", hint="Results go there.")
    text, source, logs = _inputs(arguments, job_file)
    try:
        lines = {
            "multiline": multiline,
            "timezone": timezone,
            "year": year,
            "patterns": dict(map(_pattern, patterns)),
        }
        options = {
            "format": (log_format, lines),
            "sample": sample,
            "memory_bytes": _size(memory),
            "streams": given_streams(streams, logs),
            "lookups": given_lookups(lookups),
            "python": python,
        }
        _run_all(text, source, logs, output, options)
    except QueryError as error:
        from elfmesh.cli.common import with_caret

        raise with_caret(error, text) from None


def _run_all(text: str, source: str, logs: Sequence[str], output: str, options: Mapping[str, Any]) -> None:
    from elfmesh.agent.runtime.native import fallback_reasons
    from elfmesh.cli import entry as cli
    from elfmesh.ingest.job_rows import JobRows
    from elfmesh.ql import parse_many

    for reason in fallback_reasons() if cli.verbosity >= 0 else ():
        click.echo(f"elf: {reason}", err=True)
    statements = parse_many(text, source=source)
    named = options["streams"].values()
    paths = [path for found, _ in named for path in found] if named else log_paths(logs)
    if len(statements) > 1 and "-" in paths:
        raise UsageError("several jobs cannot share standard input", hint="Save it to a file first.")
    jobs = JobRows()
    for number, statement in enumerate(statements):
        if number and output != "json":
            click.echo()
        with contextlib.ExitStack() as after:
            _run_one(statement, paths, output, {**options, "jobs": jobs}, after)


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


def _inputs(arguments: Sequence[str], job_file: str | None) -> tuple[str, str, list[str]]:
    if job_file is None:
        if not arguments:
            raise UsageError(NO_QUERY, hint=f"Write a query, or give a file with -f: {EXAMPLE}")
        return arguments[0], "query", list(arguments[1:])
    return *read_text(job_file), list(arguments)


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


def _run_one(
    statement: Statement,
    paths: Sequence[str],
    output: str,
    options: Mapping[str, Any],
    after: contextlib.ExitStack,
) -> None:
    from elfmesh.cli import entry as cli
    from elfmesh.ingest.functions.evaluator import local_evaluator
    from elfmesh.ingest.stream_formats import run_format
    from elfmesh.local.embedded import LogRun
    from elfmesh.local.run_output import writer

    stdin = getattr(sys.stdin, "buffer", None)
    bar = _Bar(paths)
    notes: list[str] = []
    with option_of("--format"):
        spec, lines = options["format"]
        form = run_format(spec, host=socket.gethostname(), **lines)
        given = {**options, "format": form, "functions": None}
        if given.pop("python") and statement.functions:
            evaluator = given["functions"] = local_evaluator(statement, notes.append)
            after.callback(evaluator.close)
        job = LogRun(statement, paths, stdin=stdin, on_bytes=bar.advance, **given)
    bar.enabled = cli.verbosity >= 0 and sys.stderr.isatty() and not (job.streams and sys.stdout.isatty())
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    with bar.shown():
        if job.streams:
            tables = job.tables()
            for first in tables:
                if first.num_rows:
                    break
            _refuse_unused(job)
            out = writer(output, sys.stdout, job.statement, bold=bold)
            out.rows(first)
            for table in tables:
                out.rows(table)
            out.end(job.record())
        else:
            results = list(job.results()) if bar.enabled else job.results()
            bar.finish()
            out, jobs = None, options["jobs"]
            jobs.begin(statement)
            for result in results:
                _refuse_unused(job)
                jobs.add(statement, result)
                out = out or writer(output, sys.stdout, job.statement, bold=bold)
                out.interval(result)
            _refuse_unused(job)
            (out or writer(output, sys.stdout, job.statement, bold=bold)).end(None)
    sys.stdout.flush()
    job.stats.samples += notes
    _summarise(job, cli.verbosity)


def _refuse_unused(job: LogRun) -> None:
    """Raise DataError if there are records and all of them are parse errors."""
    from elfmesh.cli import entry as cli

    if job.stats.records and job.stats.parse_errors == job.stats.records:
        _summarise(job, cli.verbosity)
        hint = "Specify another --format or time column; -v shows the detected formats."
        raise DataError("no record could be used, so there is no result", hint=hint)


def _summarise(job: LogRun, verbosity: int) -> None:
    stats = job.stats
    errors = stats.parse_errors + stats.function_errors + stats.field_errors + stats.undated
    troubled = errors or stats.unseen or stats.untaken or stats.doubts
    if verbosity >= 0 and not stats.records:
        click.echo("elf: the logs are empty", err=True)
    if verbosity < 0 or not (troubled or verbosity > 0):
        return
    for line in summary(stats, verbose=verbosity > 0):
        click.echo(printable(line), err=True)


def summary(stats: RunStats, *, verbose: bool) -> Iterator[str]:
    """Return a few lines about what was read, and what was wrong with it."""
    counts = [_plural(stats.records, "record"), _plural(stats.parse_errors, "parse error")]
    counts += [f"{stats.filtered} filtered"]
    if stats.function_errors:
        counts.append(_plural(stats.function_errors, "function error"))
    if stats.field_errors:
        counts.append(f"{_plural(stats.field_errors, 'value')} of another type than the column, read as null")
    if stats.undated:
        counts.append(f"{_plural(stats.undated, 'record')} without a time that can be read")
    if stats.replaced:
        counts.append(f"{_plural(stats.replaced, 'line')} with malformed UTF-8")
    yield f"elf: {', '.join(counts)}, {stats.seconds:.2f} s"
    yield from (f"  {sample}" for sample in stats.samples)
    for name, hint in stats.unseen.items():
        yield f"  no record has a value in {name}: it is null everywhere. {hint}".rstrip()
    yield from (f"  {line}" for line in (*stats.untaken, *stats.doubts))
    if verbose:
        yield from (f"  {path}: {name}" for path, name in stats.formats.items())


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


class _Bar:
    """Progress bar on standard error, which appears when reading takes longer than a second."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.enabled = False
        self._paths = paths
        self._began = time.monotonic()
        self._read = 0
        self._progress: Any = None

    def advance(self, count: int) -> None:
        self._read += count
        if self._progress is not None:
            self._progress.update(self._task, completed=self._read)
        elif self.enabled and time.monotonic() - self._began > BAR_AFTER_S:
            self._show()

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.finish()

    def finish(self) -> None:
        self.enabled = False
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        sizes = [Path(path).stat().st_size for path in self._paths if path != "-"]
        total = sum(sizes) if len(sizes) == len(self._paths) else None
        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("reading", total=total, completed=self._read)
        self._progress.start()


if __name__ == "__main__":
    from elfmesh.cli.entry import main

    main(["run", *sys.argv[1:]])

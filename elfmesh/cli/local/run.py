"""`elf run`: runs a query or a job file over log files in this process.

The module owns the command line and the order of the output. Rows are written to standard output,
everything else to standard error. Errors are raised as the error tree; `entry` converts them to messages and
exit codes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import rows_output_option
from elfmesh.cli.local.log_options import EXAMPLE, all_paths, log_options, option_of, settings_of
from elfmesh.cli.local.progress_bar import ProgressBar
from elfmesh.cli.local.run_summary import refuse_unused, summarise
from elfmesh.errors import QueryError, RuntimeFailure, UsageError
from elfmesh.lazy import loading
from elfmesh.local.text_input import read_text

if TYPE_CHECKING:
    from elfmesh.cli.local.live import LiveOutput
    from elfmesh.ingest.job_rows import JobRows
    from elfmesh.local.embedded import LogRun
    from elfmesh.local.parquet_file import ParquetRows
    from elfmesh.ql import Statement

NO_QUERY = "no query"


@click.command("run", short_help="Run a query over log files in one process, without a network.")
@click.argument("arguments", nargs=-1, metavar="[QUERY] [LOG]...")
@click.option(
    "-f", "--file", "job_file", metavar="FILE", help="Read QUERY from FILE; - reads standard input."
)
@rows_output_option
@log_options
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Read only the first N records.")
@click.option(
    "--follow", is_flag=True, help="Continue to read the files at their end, until Ctrl-C; implies --live."
)
@click.option(
    "--live",
    is_flag=True,
    help="Print each window as it closes. [default: if a pipe is read and the output is a terminal]",
)
@click.option("-v", "--verbose", count=True, help="Print more messages; -vv also prints tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def run_command(
    arguments: tuple[str, ...],
    job_file: str | None,
    output: str,
    output_file: Path | None,
    sample: int | None,
    follow: bool,
    live: bool,
    verbose: int,
    quiet: bool,
    **given: Any,
) -> None:
    """Run QUERY over LOG files and print the rows of every interval.

    LOG files have lines, plain or compressed with gzip or zstd, or are Parquet files; - reads standard input.
    Every name after FROM refers to these files unless --stream assigns files to names. The last interval ends
    with the input. No record is late.

    With --from and --to, the rows are those of the records of this time alone.

    With --live, a window is printed as soon as an event time is later than its end by LATENESS, and again if
    a record arrives for it. Its state in -o json is TENTATIVE, and FINAL at the end of the input.
    Example: tail -f access.log | elf run "SELECT status, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL
    '10' SECOND), status" -
    """
    from elfmesh.cli import entry as cli

    if quiet or cli.verbosity >= 0:
        cli.verbosity = -1 if quiet else max(cli.verbosity, verbose)
    if sys.stdout is None:
        raise RuntimeFailure("standard output is closed", hint="Results go there.")
    text, source, logs = _inputs(arguments, job_file)
    try:
        options = settings_of(logs, given)
        options |= {"sample": sample, "live": live or follow, "follow": follow, "file": output_file}
        _run_all(text, source, logs, output, options)
    except QueryError as error:
        from elfmesh.cli.common import with_caret

        raise with_caret(error, text) from None


def _run_all(text: str, source: str, logs: Sequence[str], output: str, options: Mapping[str, Any]) -> None:
    from elfmesh.cli import entry as cli

    with loading():
        from elfmesh.agent.runtime.native import fallback_reasons
        from elfmesh.cli.local.live import check_followed
        from elfmesh.ingest.job_rows import JobRows
        from elfmesh.local.named_logs import declared_columns
        from elfmesh.ql import parse_many

        statements = parse_many(text, source=source, declared=declared_columns(options["streams"]))
    for reason in fallback_reasons() if cli.verbosity >= 0 else ():
        click.echo(f"elf: {reason}", err=True)
    reads = any(statement.streams for statement in statements)
    paths = all_paths(options["streams"], logs) if reads or logs else []
    if len(statements) > 1 and "-" in paths:
        raise UsageError("several jobs cannot share standard input", hint="Save it to a file first.")
    if options["follow"]:
        check_followed(paths, len(statements))
    path, jobs = options["file"], JobRows()
    if path is not None and (len(statements) > 1 or options["live"]):
        why = "live windows are printed again" if options["live"] else f"there are {len(statements)} jobs"
        raise UsageError(f"a Parquet file has the rows of one answer, and {why}")
    with whole_answer(path) as file:
        for number, statement in enumerate(statements):
            if number and output not in ("json", "jsonl"):
                click.echo()
            with contextlib.ExitStack() as after:
                mine = paths if statement.streams or not reads else []
                run_one(statement, mine, output, {**options, "jobs": jobs, "file": file}, after)


@contextlib.contextmanager
def whole_answer(path: Path | None) -> Iterator[ParquetRows | None]:
    """Yield the rows of the Parquet file, None if there is no file."""
    if path is None:
        yield None
        return
    from elfmesh.local.parquet_file import parquet_file

    with parquet_file(path) as rows:
        yield rows


def _inputs(arguments: Sequence[str], job_file: str | None) -> tuple[str, str, list[str]]:
    if job_file is None:
        if not arguments:
            raise UsageError(NO_QUERY, hint=f"Write a query, or give a file with -f: {EXAMPLE}")
        return arguments[0], "query", list(arguments[1:])
    return *read_text(job_file), list(arguments)


def run_one(
    statement: Statement,
    paths: Sequence[str],
    output: str,
    options: Mapping[str, Any],
    after: contextlib.ExitStack,
) -> None:
    from elfmesh.cli import entry as cli

    with loading():
        from elfmesh.cli.local.live import LiveOutput, interrupt_ends, is_live
        from elfmesh.ingest.memory import keep_freed
        from elfmesh.ingest.stream_formats import run_format
        from elfmesh.local.embedded import LogRun
        from elfmesh.local.run_output import writer

    keep_freed()
    stdin = getattr(sys.stdin, "buffer", None)
    bar = ProgressBar(paths)
    notes: list[str] = []
    terminal = sys.stdout.isatty()
    bold = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else None
    given = {**options, "functions": None}
    file = given.pop("file")
    shown = LiveOutput(
        lambda: writer(output, sys.stdout, job.statement, bold=bold, columns_max=width, file=file)
    )
    live = given.pop("live") or (file is None and is_live(paths))
    stop, follow = threading.Event(), given.pop("follow")
    with option_of("--format"):
        spec, lines = options["format"]
        given["format"] = run_format(spec, host=socket.gethostname(), **lines)
        if given.pop("python") and statement.functions:
            from elfmesh.ingest.functions.evaluator import local_evaluator

            evaluator = given["functions"] = local_evaluator(statement, notes.append)
            after.callback(evaluator.close)
        on_window = shown.window if live else None
        job = LogRun(
            statement,
            paths,
            stdin=stdin,
            on_bytes=bar.advance,
            on_window=on_window,
            follow=stop if follow else None,
            **given,
        )
    rows_first = job.streams and terminal and file is None
    bar.enabled = cli.verbosity >= 0 and sys.stderr.isatty() and not rows_first and not live
    if live:
        after.enter_context(interrupt_ends(stop))
    with bar.shown():
        if job.streams:
            _print_rows(job, shown, live=live)
        else:
            _print_intervals(job, shown, bar, options["jobs"], known=live and output != "json")
    sys.stdout.flush()
    job.stats.samples += notes
    summarise(job, cli.verbosity, live=live)


def _print_rows(job: LogRun, shown: LiveOutput, *, live: bool) -> None:
    """Print the rows of a plain projection block by block."""
    tables = job.tables()
    for first in tables:
        if first.num_rows:
            break
    refuse_unused(job)
    shown.writer.rows(first)
    for table in tables:
        if live:
            shown.flush()
        shown.writer.rows(table)
    shown.writer.end(job.record())


def _print_intervals(job: LogRun, shown: LiveOutput, bar: ProgressBar, jobs: JobRows, *, known: bool) -> None:
    """Print the intervals at the end of the input; if `known`, without those that were printed before."""
    results = list(job.results()) if bar.enabled else job.results()
    bar.finish()
    jobs.begin(job.statement)
    for result in results:
        refuse_unused(job)
        jobs.add(job.statement, result)
        if not (known and job.live.has(result.record.index, tuple(result.record.counts.values()))):
            shown.writer.interval(result)
    refuse_unused(job)
    shown.writer.end(None)


if __name__ == "__main__":
    from elfmesh.cli.entry import main

    main(["run", *sys.argv[1:]])

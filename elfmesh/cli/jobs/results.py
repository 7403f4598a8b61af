"""`elf results`: prints the records of a job as tables, JSON lines or CSV, once or as they arrive.

JSON lines are printed as the agent wrote them, so that no number loses digits.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import sys
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from elfmesh.api.client.client import Client
from elfmesh.api.client.result_range import first_of_last, interval_from
from elfmesh.api.line_parts import OPEN_STATES, ends, place_of
from elfmesh.cli.common import (
    api_option,
    end_with_reader,
    job_argument,
    print_csv,
    print_table,
    rows_output_option,
    say,
    text_of,
)
from elfmesh.cli.jobs.chart import Chart
from elfmesh.cli.jobs.results_file import write_parquet
from elfmesh.local.row_formats import row_format
from elfmesh.units import parse_time

_NOTED = ("reason", "withdrawn", "growing")
HEAD = ("interval_index", "interval_start", "interval_end", "state", "rev", "completeness")


@click.command("results")
@job_argument
@click.option("--follow", is_flag=True, help="Continue with new intervals as they close.")
@click.option(
    "--from", "start", type=int, metavar="I", help="First interval. [default: the oldest that is kept]"
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of intervals.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N records.")
@click.option(
    "--since", metavar="T", help="Only intervals that start at T or later: a time, or a duration ago."
)
@click.option("--until", metavar="T", help="Only intervals that start before T.")
@click.option(
    "--state",
    type=click.Choice(("final", "all")),
    default="final",
    show_default=True,
    help=("Print only final records, or also tentative records of open intervals and every revision."),
)
@click.option(
    "--early", is_flag=True, help="Also print the early rows of open windows, if the job has EARLY."
)
@click.option("--chart", is_flag=True, help="Draw a chart over time, and the newest rows as bars.")
@click.option("--column", metavar="NAME", help="Column to draw. [default: the last numeric column]")
@rows_output_option
@api_option
def results_command(
    job: str,
    follow: bool,
    start: int | None,
    limit: int | None,
    last: int | None,
    since: str | None,
    until: str | None,
    state: str,
    early: bool,
    chart: bool,
    column: str | None,
    output: str,
    output_file: Path | None,
    api: str | None,
) -> None:
    """Print the results of JOB, oldest first.

    A time without an offset is UTC. Example: elf results web/top_paths --since '10 min' --follow
    """
    if sum(each is not None for each in (start, last, since)) > 1:
        raise click.UsageError("--from, --last and --since exclude each other")
    if early and (chart or state == "all" or output in ("csv", "parquet")):
        raise click.UsageError("--early excludes --state all, --chart, -o csv and -o parquet")
    if follow and output_file is not None:
        raise click.UsageError("--follow has no end, and a Parquet file has one")
    if (chart and output != "table") or (column and not chart):
        raise click.UsageError("--column needs --chart, and --chart needs the table format")
    client, now = Client(api), datetime.datetime.now(datetime.UTC)
    stop = until and interval_from(client, job, parse_time(until, now, "--until"))
    if since is not None:
        start = interval_from(client, job, parse_time(since, now, "--since"))
    elif last is not None:
        start = first_of_last(client, job, last)
    if output_file is not None:
        stop = stop if isinstance(stop, int) else None
        write_parquet(client, job, output_file, (start, stop), limit, state=state)
        return
    with contextlib.ExitStack() as stack:
        printers: dict[str, type[_Printer]] = {"table": _Table, "json": _Lines, "csv": _Csv}
        printer: _Printer = printers[output]() if output in printers else _Rows(output)
        if chart:
            drawing = Chart(column, follow=follow)
            stack.callback(drawing.close)
            printer = drawing
        lines = client.lines(job, follow=follow, start=start, limit=limit, state="early" if early else state)
        if isinstance(stop, int):
            lines = itertools.takewhile(lambda line: place_of(json.loads(line))[0] < stop, lines)
        _show(printer, lines, job, follow, start, limit, quiet=output != "table")


def _show(
    printer: _Printer,
    lines: Iterable[bytes],
    job: str,
    follow: bool,
    start: int | None,
    limit: int | None,
    *,
    quiet: bool,
) -> None:
    count, last = 0, b""
    if follow:
        end_with_reader()
    try:
        for line in lines:
            printer.show(line)
            sys.stdout.flush()
            count, last = count + 1, line
    except KeyboardInterrupt:
        if not follow:
            raise
    if count == limit and start is None and not follow:
        following = int(_parse(last)["interval"]["index"]) + 1
        say(
            f"These are the oldest {count} intervals that are kept; --from {following} shows later ones,"
            f" and --last {count} the newest."
        )
    if not count and not follow and not quiet:
        say(f"{job} has no results yet." if start is None else f"{job} has no results from {start} on.")


class _Printer(Protocol):
    def show(self, line: bytes) -> None: ...


class _Lines:
    def show(self, line: bytes) -> None:
        sys.stdout.write(line.decode() + "\n")


class _Table:
    """Prints a heading for each interval, followed by its rows."""

    def show(self, line: bytes) -> None:
        found = _parse(line)
        interval, agents = found["interval"], found["agents"]
        counts = {key: value for key, value in found.get("counts", {}).items() if value}
        heading = (
            f"interval {interval['index']}  {interval['start'] or ''} .. {interval['end'] or ''}  "
            f"{found['state']}{_revision(found)}  {agents['in']}/{agents['expected']} agents  "
            f"{text_of(counts)}"
        )
        if found.get("part", 1) == 1:
            click.secho(heading, bold=True)
            noted = {"missing": agents.get("missing")} | {name: found.get(name) for name in _NOTED}
            for name, text in noted.items():
                if text:
                    click.secho(f"{name}: {text_of(text)}", fg="yellow")
        rows = found["rows"]
        if rows:
            columns = list(rows[0])
            print_table(columns, [[row[column] for column in columns] for row in rows], cut=True)
        if ends(found):
            click.echo()


class _Csv:
    """Prints one line per row, and a new header whenever the columns change."""

    def __init__(self) -> None:
        self._columns: list[str] | None = None

    def show(self, line: bytes) -> None:
        # numbers keep the text of the agent, as in the file that the web page saves
        found = json.loads(line, parse_float=lambda text: msgspec.Raw(text.encode()))
        interval = found["interval"]
        head = [
            interval["index"],
            interval["start"],
            interval["end"],
            found["state"],
            found["rev"],
            found["completeness"],
        ]
        for row in found["rows"]:
            columns = list(row)
            if columns != self._columns:
                self._columns = columns
                print_csv([*HEAD, *columns])
            print_csv([*head, *row.values()])


class _Rows:
    """Prints rows in one of the formats with a line or a group of lines per row."""

    def __init__(self, kind: str) -> None:
        self._format = row_format(kind, sys.stdout)
        self._names = ("interval_start", "interval_end", "completeness") if kind == "jsonl" else HEAD

    def show(self, line: bytes) -> None:
        found = _parse(line)
        interval = {f"interval_{name}": value for name, value in found["interval"].items()}
        head = {name: (found | interval).get(name) for name in self._names}
        for row in found["rows"]:
            self._format.write([*(shown := {**head, **row})], [[*shown.values()]])


def _revision(found: dict[str, Any]) -> str:
    return f" rev {found['rev']}" if found["rev"] > 1 or found["state"] in OPEN_STATES else ""


def _parse(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line, parse_float=Decimal)
    return found

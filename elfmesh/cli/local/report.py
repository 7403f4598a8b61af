"""`elf report`: a summary of log files, on the terminal or as one HTML file."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import print_json, print_table, text_of
from elfmesh.cli.local.describe_log import cut_cell, plain_value
from elfmesh.errors import RuntimeFailure

if TYPE_CHECKING:
    from elfmesh.local.log_report import LogSummary

BAR = 30
"""Characters of the longest bar."""


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "spec", default="auto", show_default=True, help="Log format, as in elf run.")
@click.option(
    "--html", "target", metavar="FILE", type=click.Path(path_type=Path),
    help="Write the report to one HTML file, which needs no other file and has no script.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", help="Output format.")
def report_command(files: tuple[str, ...], spec: str, target: Path | None, output: str) -> None:
    """Summarise log files without a query.

    The report has the format, the bad lines, the time range and rate, the lines per minute, hour, day, month
    or year, the most frequent values of each column of text with few different values, and the extremes,
    mean and sum of each column of numbers. Files of one format have one report together.

    Example: elf report /var/log/nginx/access.log* --html report.html
    """
    from elfmesh.cli.local.log_options import log_paths
    from elfmesh.ingest.parsers import StreamFormat
    from elfmesh.local.log_report import report

    reports = [*report(log_paths(files), StreamFormat(spec, host=socket.gethostname()))]
    if target is not None:
        from elfmesh.cli.local.report_html import page
        from elfmesh.storage.whole import whole_file

        try:
            with whole_file(target) as file:
                file.write(page(reports).encode())
        except OSError as error:
            raise RuntimeFailure(f"{target}: {error.strerror or error}") from None
        return
    for number, each in enumerate(reports):
        if output == "json":
            print_json(_object(each))
            continue
        click.echo("\n" * (number > 0), nl=False)
        _print(each)


def head_of(found: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield the facts about all files: names and texts."""
    for each in found.files:
        bad = f", {each.bad:,} bad" if each.bad else ""
        yield each.path, f"{each.format}, {each.records:,} lines{bad}"
        yield from (("", sample) for sample in each.bad_samples)
    if found.bad and len(found.files) > 1:
        yield "all files", f"{found.lines:,} lines, {found.bad:,} bad"
    if found.first is None or found.last is None:
        yield "time", "none"
    else:
        rate = found.lines_per_second
        rated = "" if rate is None else f", {rate:.3g} lines per second"
        yield "time", f"{plain_value(found.first)} .. {plain_value(found.last)}{rated}"


def tables_of(found: LogSummary) -> Iterator[tuple[str, Sequence[str], list[list[Any]], Sequence[int]]]:
    """Yield title, columns, rows, and for each row the count of which a bar is drawn."""
    if found.times:
        has_bytes = any(each.bytes is not None for each in found.times)
        rows = [
            [plain_value(each.start), each.lines, *([each.bytes] if has_bytes else [])]
            for each in found.times
        ]
        columns = ("start", "lines", *(("bytes",) if has_bytes else ()))
        yield f"lines per {found.unit.lower()}", columns, rows, [each.lines for each in found.times]
    total = found.lines - found.bad
    for top in found.frequent:
        counted = [[value, count, f"{count / total:.1%}"] for value, count in top.values]
        title = f"{top.column}: {top.distinct:,} different value{'s' if top.distinct != 1 else ''}"
        if not top.is_exact:
            title = f"{top.column}: about {top.distinct:,} different values; counts may be too low"
        yield title, (top.column, "lines", "share"), counted, [count for _, count in top.values]
    if found.numbers:
        rows = [
            [each.column, each.least, each.largest, _rounded(each.mean), each.sum] for each in found.numbers
        ]
        yield "numbers", ("column", "min", "max", "mean", "sum"), rows, ()


def _print(found: LogSummary) -> None:
    for name, text in head_of(found):
        click.echo(text_of(f"{name}: {text}" if name else f"  {text}"))
    for title, columns, rows, counts in tables_of(found):
        click.echo()
        click.secho(text_of(title), bold=True)
        most = max(counts, default=0)
        bars = [["█" * max(1, round(BAR * count / most))] for count in counts] or [[] for _ in rows]
        cells = [[*map(cut_cell, row), *bar] for row, bar in zip(rows, bars, strict=True)]
        print_table([*columns, *([""] if counts else [])], cells, cut=True)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _number(value: float) -> float | str:
    """Return a number for JSON; one that JSON does not have is a text, as in the output of `elf run`."""
    return value if math.isfinite(value) else json.dumps(value)


def _object(found: LogSummary) -> dict[str, Any]:
    rate = found.lines_per_second
    return {
        "format": found.format,
        "files": [
            {"path": each.path, "lines": each.records, "bad": each.bad, "bad_samples": each.bad_samples}
            for each in found.files
        ],
        "lines": found.lines,
        "bad": found.bad,
        "first": plain_value(found.first),
        "last": plain_value(found.last),
        "lines_per_second": rate,
        "unit": found.unit.lower(),
        "times": [
            {"start": plain_value(each.start), "lines": each.lines, "bytes": each.bytes}
            for each in found.times
        ],
        "frequent": [
            {
                "column": each.column,
                "distinct": each.distinct,
                "exact": each.is_exact,
                "values": [{"value": value, "lines": count} for value, count in each.values],
            }
            for each in found.frequent
        ],
        "numbers": [
            {
                "column": each.column,
                "min": _number(each.least),
                "max": _number(each.largest),
                "mean": _number(each.mean),
                "sum": _number(each.sum),
            }
            for each in found.numbers
        ],
    }

"""`elf report`: a summary of log files, on the terminal or as one HTML file."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import print_json, print_table, text_of
from elfmesh.cli.local.describe_log import cut_cell, plain_value
from elfmesh.cli.local.report_tables import head_of, tables_of
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

"""`python -m benchmarks NAME [--part PART]... [--json] [--small] [--plots DIR]`: run a benchmark."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Figure, Report, report

NAMES = (
    "latency",
    "update",
    "jobs",
    "interference",
    "cbt",
    "parse",
    "ingest",
    "windows",
    "merge",
    "functions",
    "spark",
    "tls",
    "host",
    "planners",
    "wide_area",
    "replication",
    "coordination",
    "history",
    "startup",
    "threads",
    "scale",
)
WIDTH = 160
"""Columns of the table where the width of the terminal is unknown."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(NAMES))
@click.option("--part", "parts", multiple=True, metavar="PART", help="Only this part; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@click.option("--small", is_flag=True, help="A size that takes seconds: does it still run?")
@click.option(
    "--plots", type=click.Path(path_type=Path), metavar="DIR", help="Draw what can be drawn, as SVG."
)
def main(name: str, parts: tuple[str, ...], as_json: bool, small: bool, plots: Path | None) -> None:
    """Run one benchmark."""
    known = importlib.import_module(f"benchmarks.{name}").PARTS
    if unknown := set(parts) - set(known):
        raise click.BadParameter(f"{name} has no part {', '.join(unknown)}; it has {', '.join(known)}")
    figures: list[Figure] = []
    for part in parts or known:
        click.echo(f"{name}: {part} ...", err=True)
        figures += known[part](small=small)
    result = report(name, figures)
    if plots is not None:
        from benchmarks.plots import draw

        for line in draw(result, plots):
            click.echo(line, err=True)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result, enc_hook=float)).decode() + "\n")
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(_table(result))


def _table(result: Report) -> Table:
    table = Table(title=f"{result.benchmark} · {result.machine} · {result.commit}")
    for column in ("what", "value", "unit", "peer", "ratio", "spread"):
        table.add_column(column, justify="left" if column in {"what", "unit", "peer"} else "right")
    for figure in result.figures:
        if figure.skipped:
            table.add_row(figure.name, "skipped", figure.skipped)
            continue
        ratio = f"{figure.ratio:.2f}x" if figure.peer else ""
        spread = f"{figure.spread:.0%}" if figure.spread else ""
        table.add_row(figure.name, f"{figure.value:,.4g}", figure.unit, figure.peer, ratio, spread)
    return table


if __name__ == "__main__":
    main()

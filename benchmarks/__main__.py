"""`python -m benchmarks NAME [--json] [--small]`: run a benchmark and print its table."""

from __future__ import annotations

import importlib
import sys

import click
import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Figure, report

NAMES = ("latency",)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(NAMES))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@click.option("--small", is_flag=True, help="A size that takes seconds: does it still run?")
def main(name: str, as_json: bool, small: bool) -> None:
    """Run one benchmark."""
    figures: list[Figure] = importlib.import_module(f"benchmarks.{name}").measure(small=small)
    result = report(name, figures)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
        return
    table = Table(title=f"{name} · {result.machine} · {result.commit}")
    for column in ("what", "value", "unit", "peer", "ratio", "spread"):
        table.add_column(column, justify="left" if column in {"what", "unit", "peer"} else "right")
    for figure in figures:
        ratio = f"{figure.ratio:.2f}x" if figure.peer else ""
        table.add_row(
            figure.name, f"{figure.value:,.4g}", figure.unit, figure.peer, ratio, f"{figure.spread:.0%}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()

"""`elf bench host`: measures what an agent costs on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elfmesh.cli.common import csv_line, output_option, print_json, print_table, say
from elfmesh.cli.host import host_cost
from elfmesh.errors import RuntimeFailure


@click.group("bench")
def bench_group() -> None:
    """Measure what an agent costs on this machine."""


@bench_group.command("host")
@click.option(
    "--rate", type=click.FloatRange(min=1), default=10_000, show_default=True, help="Lines per second."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(host_cost.FORMATS),
    default="combined",
    show_default=True,
    help="Format of the log lines.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=2),
    default=10,
    show_default=True,
    help="Duration of the measurement.",
)
@output_option
def host_command(rate: float, format_name: str, seconds: float, output: str) -> None:
    """Run an agent with one job over a log that is written at --rate lines per second.

    The processor figure is the share of one core that the agent process uses. The lag is the time from
    the end of a one-second window until a reader has its result. The command removes all its files.
    """
    if not Path("/proc/self/statm").exists():
        raise RuntimeFailure("this command needs Linux because it reads /proc")
    progress = say if sys.stderr.isatty() else lambda reported: None
    found = host_cost.measure(rate=rate, seconds=seconds, format_name=format_name, progress=progress)
    values = {"format": format_name, **found.as_dict()}
    if output == "json":
        print_json(values)
    elif output == "csv":
        click.echo(csv_line(list(values)))
        click.echo(csv_line(list(values.values())))
    else:
        print_table(["WHAT", "VALUE"], [[what, value] for what, value in _shown(found, format_name)])


def _shown(found: host_cost.HostCost, format_name: str) -> list[tuple[str, str]]:
    return [
        (f"lines written, {format_name}", f"{found.rate:,.0f} per second for {found.seconds:.1f} s"),
        ("processor", f"{found.cpu_percent:.2f} % of one core"),
        ("of that with no lines", f"{found.idle_percent:.2f} %"),
        ("per 10,000 lines per second", f"{found.cpu_percent_per_10k:.2f} %"),
        ("resident memory, at most", f"{found.rss_bytes / 1e6:.0f} MB"),
        ("before there was a job", f"{found.rss_idle_bytes / 1e6:.0f} MB"),
        ("results behind their window, p50", f"{found.lag_p50_s * 1000:.0f} ms"),
        ("p99", f"{found.lag_p99_s * 1000:.0f} ms"),
    ]

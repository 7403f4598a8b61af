"""`elf top`: shows the load of agents and jobs, live on a terminal; elsewhere it prints one measurement.

The live screen is in `top_screen`, on textual, which the extra `shell` installs.
"""

from __future__ import annotations

import sys
import time

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, say
from elfmesh.cli.jobs.top_rows import AGENTS, COLUMNS, JOBS, FleetView, ordered, rows_of
from elfmesh.control.jobs.load import insecurity
from elfmesh.errors import NotInstalled

BETWEEN_S = 1.0
"""Seconds between the two samples of a single measurement."""


@click.command("top")
@click.option("--jobs", "view", flag_value=JOBS, help="Show jobs.")
@click.option("--agents", "view", flag_value=AGENTS, default=AGENTS, help="Show agents. [default]")
@click.option(
    "--sort", metavar="COLUMN", help="Column to sort by. In the live view, press the key of the column."
)
@click.option(
    "--once", is_flag=True, help="Print one measurement and exit. [default if the output is not a terminal]"
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Seconds between two measurements.",
)
@output_option
@api_option
def top_command(view: str, sort: str | None, once: bool, every: float, output: str, api: str | None) -> None:
    """Show the load of all agents or jobs: processor, memory, lines and lag."""
    client = Client(api)
    columns = COLUMNS[view]
    if sort is not None and sort not in columns:
        raise click.BadParameter(f"{sort!r} is not a column; the columns are {', '.join(columns)}")
    if once or output != "table" or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _answer(client, view, sort, output)
    else:
        try:
            from elfmesh.cli.jobs.top_screen import TopApp
        except ImportError:
            raise NotInstalled(
                "the live screen of `elf top` needs the package textual, which is not installed",
                hint="Install it with: pip install 'elfmesh[shell]', or run `elf top --once`.",
            ) from None
        TopApp(lambda: look(client), view, sort, every).run()


def look(client: Client) -> FleetView:
    return FleetView(client.get("agents"), client.get("jobs"))


def _answer(client: Client, view: str, sort: str | None, output: str) -> None:
    before = look(client)
    time.sleep(BETWEEN_S)
    now = look(client)
    shown = ordered(rows_of(view, before, now), sort or "cpu_percent", COLUMNS[view][0])
    if output == "json":
        for row in shown:
            print_json(row)
    else:
        if warning := insecurity(now.agents):
            say(warning)
        print_rows(output, COLUMNS[view], shown)

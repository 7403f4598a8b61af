"""`elf why`: shows which interval and which agents delay a job, and since when."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import (
    api_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    text_of,
)

COLUMNS = ("agent", "state", "frontier", "behind", "dead_for_seconds", "error")


@click.command("why")
@job_argument
@output_option
@api_option
def why_command(job: str, output: str, api: str | None) -> None:
    """Show what delays JOB: the interval, since when, and the agents."""
    found = Client(api).why(job)
    if output == "json":
        print_json(found)
        return
    if output == "csv":
        print_rows("csv", COLUMNS, found["agents"])
        return
    interval = found["interval"]
    if interval is not None:
        click.secho(
            f"interval {interval['index']}  {interval['start']} .. {interval['end']}  "
            f"{found['in']}/{found['expected']} agents in",
            bold=True,
        )
    click.echo(text_of(found["because"]))
    if newest := found.get("newest"):
        lacks = f", missing: {', '.join(newest['missing'])}" if newest["missing"] else ""
        reported = f"newest record: interval {newest['index']}, {newest['state']}"
        click.echo(text_of(f"{reported}, completeness {newest['completeness']:.3g}{lacks}"))
    if found["tentative_rev"]:
        click.echo(f"published meanwhile as TENTATIVE rev {found['tentative_rev']}: elf results --state all")
    if found["agents"]:
        print_rows("table", COLUMNS, found["agents"])

"""`elf leave`: an agent goes for good, and no interval misses it."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_rows
from elfmesh.errors import RuntimeFailure, Unreachable
from elfmesh.text import printable
from elfmesh.units import parse_duration_us

COLUMNS = ("agent", "state", "jobs")


@click.command("leave")
@click.option("--wait", default="60 s", show_default=True, metavar="D", help="How long to wait for its end.")
@output_option
@api_option
def leave_command(wait: str, output: str, api: str | None) -> None:
    """The agent at --api contributes what it has begun, leaves all its jobs, and ends.

    Each job names the last interval that the agent is expected in; later ones are complete without it.
    Stopping an agent with SIGTERM is for restarts: it stays expected. Nobody leaves a paused job.

    Ends with 0 when it has left, with 1 if that takes longer than --wait: it goes on to leave.
    """
    wait_s = parse_duration_us(wait) / 1_000_000
    try:
        found = Client(api).leave(wait_s=wait_s)
    except Unreachable as error:
        raise Unreachable(
            error.message,
            where=error.where,
            hint="If it is leaving, it ends by itself after its last interval.",
        ) from None
    if found["state"] != "left":
        jobs = [f"{each['job']}{' (paused)' if each['paused'] else ''}" for each in found["waits_for"]]
        text = f"{printable(str(found['agent']))} is still leaving {printable(', '.join(jobs))}"
        raise RuntimeFailure(text, hint="It ends by itself after its last interval; `elf why JOB` says more.")
    if output == "table":
        jobs = found["jobs"]
        click.echo(f"{printable(str(found['agent']))} has left {jobs} job{'' if jobs == 1 else 's'} and ends")
    else:
        print_rows(output, COLUMNS, [found])

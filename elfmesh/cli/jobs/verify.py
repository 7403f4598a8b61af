"""`elf verify`: lets agents recompute a closed interval from their raw logs, and compares the rows."""

from __future__ import annotations

import time
from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import (
    api_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    print_table,
    say,
    text_of,
)
from elfmesh.errors import RuntimeFailure

POLL_S = 0.25
EXIT_DIFFERENT = 1


@click.command("verify")
@job_argument
@click.option("--interval", type=int, required=True, metavar="I", help="Number of a closed interval.")
@output_option
@api_option
def verify_command(job: str, interval: int, output: str, api: str | None) -> None:
    """Recompute interval I of JOB from the raw logs on the agents that still have them.

    The exit code is 0 if the rows equal the published rows, and 1 if they differ or the logs are no
    longer complete.
    """
    client = Client(api)
    found = client.verify(job, interval, again=True)
    while found["state"] == "running":
        time.sleep(POLL_S)
        found = client.verify(job, interval)
    if found["state"] in ("unknown", "failed", "refused"):
        raise RuntimeFailure(str(found["error"]), where=job, hint=_what_helps(found, job))
    if output == "json":
        print_json(found)
    elif output == "csv":
        print_rows("csv", ("job", "interval", "state", "rows", "digest"), [found])
    else:
        _show(found)
    if found["state"] != "equal":
        raise click.exceptions.Exit(EXIT_DIFFERENT)


def _what_helps(found: dict[str, Any], job: str) -> str:
    from elfmesh.control.master.verification import SESSIONS

    if found["error"] == SESSIONS:
        return (
            f"`elf run` over all the raw logs recomputes them, as does `elf diff {job}` on Spark; "
            f"`elf describe job {job}` has the text."
        )
    if found["state"] == "unknown":
        return f"`elf results {job}` lists what is kept."
    return f"Ask again in a moment; `elf why {job}` shows what delays the job."


def _show(found: dict[str, Any]) -> None:
    state, interval = found["state"], found["interval"]
    names = [agent["agent"] for agent in found["agents"]]
    if state == "equal":
        click.echo(
            f"interval {interval}: equal. {found['rows']} rows recomputed by {len(names)} agents from"
            f" {found['recomputed']['contributed']} records; digest {found['digest']}"
        )
        return
    click.secho(f"interval {interval}: {state.upper()}", fg="red", bold=True)
    click.echo(f"published:  {text_of(found['published'])}")
    click.echo(f"recomputed: {text_of(found['recomputed'])}")
    for pair in found.get("differences", ()):
        click.echo(f"  - {text_of(pair['published'])}\n  + {text_of(pair['recomputed'])}")
    if found["errors"]:
        print_table(["AGENT", "ERROR"], [[each["agent"], each["error"]] for each in found["errors"]])
    late = found["published"].get("late_dropped", 0)
    if state == "different" and late:
        say(f"{late} records arrived too late for the published result; the recomputation includes them.")

"""`elf verify`: lets agents recompute a closed interval from their raw logs, and compares the rows."""

from __future__ import annotations

import time

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
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_changes import Verification
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
    while (outcome := read_reply(Verification, found)).state == "running":
        time.sleep(POLL_S)
        found = client.verify(job, interval)
    if outcome.state in ("unknown", "failed", "refused"):
        raise RuntimeFailure(str(outcome.error), where=job, hint=_what_helps(outcome, job))
    if output == "json":
        print_json(found)
    elif output == "csv":
        print_rows("csv", ("job", "interval", "state", "rows", "digest"), [found])
    else:
        _show(outcome)
    if outcome.state != "equal":
        raise click.exceptions.Exit(EXIT_DIFFERENT)


def _what_helps(outcome: Verification, job: str) -> str:
    from elfmesh.control.master.verification import SPANNING

    if outcome.error in SPANNING.values():
        return (
            f"`elf run` over all the raw logs recomputes them, as does `elf diff {job}` on Spark; "
            f"`elf describe job {job}` has the text."
        )
    if outcome.state == "unknown":
        return f"`elf results {job}` lists what is kept."
    return f"Ask again in a moment; `elf why {job}` shows what delays the job."


def _show(outcome: Verification) -> None:
    state, interval, published = outcome.state, outcome.interval, outcome.published or {}
    recomputed, agents = outcome.recomputed or {}, outcome.agents or []
    if state == "equal":
        click.echo(
            f"interval {interval}: equal. {outcome.rows} rows recomputed by {len(agents)} agents from"
            f" {recomputed['contributed']} records; digest {outcome.digest}"
        )
        return
    click.secho(f"interval {interval}: {state.upper()}", fg="red", bold=True)
    click.echo(f"published:  {text_of(published)}")
    click.echo(f"recomputed: {text_of(recomputed)}")
    for pair in outcome.differences or []:
        click.echo(f"  - {text_of(pair['published'])}\n  + {text_of(pair['recomputed'])}")
    if outcome.errors:
        print_table(["AGENT", "ERROR"], [[each["agent"], each["error"]] for each in outcome.errors])
    late = published.get("late_dropped", 0)
    if state == "different" and late:
        say(f"{late} records arrived too late for the published result; the recomputation includes them.")

"""`elf job recover`: continues a job with other voters after a majority of its voters was lost."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, job_argument, output_option, print_json, text_of
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_changes import Recovery
from elfmesh.errors import UsageError
from elfmesh.text import printable


@click.group("job")
def job_group() -> None:
    """Recover a job that has lost a majority of its voters."""


@job_group.command("recover")
@job_argument
@click.option(
    "--i-accept-loss",
    "accepted",
    is_flag=True,
    help=("Perform the recovery. Without this option, the command only prints what it would do."),
)
@output_option
@api_option
def recover_command(job: str, accepted: bool, output: str, api: str | None) -> None:
    """Start a new incarnation of JOB with voters among the remaining agents.

    Use this for a job that has permanently lost a majority of its voters together with their data
    directories. The command is refused while a majority answers. Results on disk remain readable under
    the old incarnation; the command lists the intervals that may be lost. Voters that return later join
    the new incarnation.
    """
    found = Client(api).recover(job, accept_loss=accepted)
    if output == "table":
        _show(read_reply(Recovery, found))
    else:
        print_json(found)
    if not accepted:
        raise UsageError(
            "nothing was changed",
            where=job,
            hint="Bring the voters back if you can. If they are lost for good, add --i-accept-loss.",
        )


def _show(recovery: Recovery) -> None:
    click.echo(f"{printable(recovery.job)}: {text_of(recovery.state)}")
    for voter in recovery.voters:
        click.echo(printable(f"voter {voter.address}: {voter.state}"))
    click.echo(f"results on disk: up to interval {text_of(recovery.results['latest'])}")
    lost = recovery.may_be_lost
    click.echo(printable(f"may be lost: from interval {text_of(lost.intervals[0])} on, {lost.what}"))

"""`elf leave`: removes an agent permanently, so that later intervals do not expect it."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_rows
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_agents import LeavingAgent, LeavingJob
from elfmesh.errors import RuntimeFailure, Unreachable
from elfmesh.text import printable
from elfmesh.units import parse_duration_us

COLUMNS = ("agent", "state", "jobs")


@click.command("leave")
@click.option(
    "--wait",
    default="60 s",
    show_default=True,
    metavar="D",
    help="How long to wait until the agent has left.",
)
@click.option(
    "--now", is_flag=True, help="Hand the open windows to other agents instead of waiting for their ends."
)
@output_option
@api_option
def leave_command(wait: str, now: bool, output: str, api: str | None) -> None:
    """Make the agent at --api seal its open intervals, leave all its jobs, and stop.

    Each job records the last interval in which it expects the agent; later intervals are complete without
    it. For a restart, stop the agent with SIGTERM instead: it stays expected. An agent cannot leave a
    paused job.

    With --now, the agent reads its logs to their end, seals its open windows, and ends as soon as other
    agents keep copies of them. Their results are complete. Records that are written later are not read.

    The exit code is 0 if the agent has left, and 1 if that takes longer than --wait. The agent then
    continues to leave.
    """
    wait_s = parse_duration_us(wait) / 1_000_000
    try:
        found = Client(api).leave(wait_s=wait_s, now=now)
    except Unreachable as error:
        raise Unreachable(
            error.message,
            where=error.where,
            hint="If it is leaving, it stops after its last interval.",
        ) from None
    agent = read_reply(LeavingAgent, found)
    if agent.state != "left":
        jobs = [f"{each.job}{_reason(each)}" for each in agent.waits_for or ()]
        text = f"{printable(agent.agent)} is still leaving {printable(', '.join(jobs))}"
        raise RuntimeFailure(text, hint="It stops after its last interval; `elf why JOB` shows details.")
    if output == "table":
        count = f"{agent.jobs} job{'' if agent.jobs == 1 else 's'}"
        click.echo(f"{printable(agent.agent)} has left {count} and stops")
    else:
        print_rows(output, COLUMNS, [found])


def _reason(job: LeavingJob) -> str:
    reason = "paused" if job.paused else job.problem
    return f" ({reason})" if reason else ""

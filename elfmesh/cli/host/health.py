"""`elf health`: reports the health of an agent as an exit code, for containers and monitors."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_rows
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_agents import Health
from elfmesh.errors import RuntimeFailure, UsageError
from elfmesh.text import printable
from elfmesh.units import parse_duration_us

COLUMNS = ("agent", "status", "problem", "sinks")


@click.command("health")
@click.option(
    "--alive", is_flag=True, help="Succeed on any answer of the agent. Use this for liveness probes."
)
@click.option(
    "--timeout", default="5 s", show_default=True, metavar="D", help="How long to wait for the answer."
)
@output_option
@api_option
def health_command(alive: bool, timeout: str, output: str, api: str | None) -> None:
    """Report the health of the agent at --api.

    The exit code is 0 if the agent is healthy, 1 if it is degraded or waits for disk space or a file
    descriptor, and 69 if it does not answer in time. With --alive, any answer counts as success,
    because a restart would not remove the reported fault.
    """
    timeout_s = parse_duration_us(timeout) / 1_000_000
    if timeout_s <= 0:
        raise UsageError("must be greater than 0", where="--timeout")
    found = Client(api, timeout_s=timeout_s).health()
    health = read_reply(Health, found)
    if output == "table":
        problem = f": {health.problem}" if health.problem else ""
        click.echo(printable(f"{health.agent} is {health.status}{problem}"))
        if health.dead_agents:
            click.echo(printable(f"dead agents: {', '.join(health.dead_agents)}"))
        for warning in health.warnings or ():
            click.echo(printable(f"warning: {warning}"))
        for sink, why in (health.sinks or {}).items():
            click.echo(printable(f"sink {sink}: {why}"))
    else:
        print_rows(output, COLUMNS, [found])
    if health.status != "ok" and not alive:
        raise RuntimeFailure(f"the agent is {printable(health.status)}", hint="`elf why JOB` shows details.")

"""`elf wait`: waits for a condition of the fleet, for scripts and rolling restarts."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, complete_jobs, say
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.units import parse_duration_us

POLL_S = 0.25


@click.command("wait")
@click.option("--agents", type=click.IntRange(min=1), metavar="N", help="Wait until N agents are alive.")
@click.option("--job", metavar="JOB", shell_complete=complete_jobs, help="Wait until JOB has a result.")
@click.option("--complete", is_flag=True, help="With --job: wait for a new result of completeness 1.0.")
@click.option("--timeout", default="5 min", show_default=True, metavar="D", help="How long to wait at most.")
@api_option
def wait_command(agents: int | None, job: str | None, complete: bool, timeout: str, api: str | None) -> None:
    """Wait until agents are alive, a job has a result, or both.

    With --complete, only a result counts that is newer than those at the start of the command, because a
    result from before a restart says nothing about the agents of now. The exit code is 1 if the time limit
    passes first. An agent that does not answer at --api is asked again until then.

    Example: elf wait --agents 5 --job web/top_paths --complete
    """
    if agents is None and job is None:
        raise UsageError("give --agents, --job or both")
    if complete and job is None:
        raise UsageError("needs --job", where="--complete")
    timeout_s = parse_duration_us(timeout) / 1_000_000
    client, deadline = Client(api), time.monotonic() + timeout_s
    conditions: list[Callable[[], str]] = []
    if agents is not None:
        conditions.append(lambda: _agents_alive(client, agents))
    if job is not None:
        conditions.append(_Result(client, job, complete))
    for condition in conditions:
        while lack := _lack(condition):
            if time.monotonic() >= deadline:
                raise RuntimeFailure(f"{timeout} are over: {lack}", hint="`elf status` shows what is wrong.")
            time.sleep(POLL_S)


def _lack(condition: Callable[[], str]) -> str:
    try:
        return condition()
    except Unreachable as error:
        return str(error)


def _agents_alive(client: Client, wanted: int) -> str:
    """Return what is missing to so many agents; "" if nothing is."""
    alive = sum(row["status"] != "dead" for row in client.ask("agents")["agents"])
    if alive < wanted:
        return f"{alive} of {wanted} agents are alive"
    say(f"{alive} agent{'s are' if alive > 1 else ' is'} alive")
    return ""


class _Result:
    """The condition that a job has a result.

    Args:
        client: connection to an agent.
        job: name of the job.
        complete: whether the result must be newer than the one at the first call, and complete.
    """

    def __init__(self, client: Client, job: str, complete: bool) -> None:
        self._client, self._job, self._complete = client, job, complete
        self._first: int | None = None

    def __call__(self) -> str:
        row = self._client.describe(self._job)
        newest, completeness = row["latest"], row["completeness"]
        if self._first is None:
            self._first = -1 if newest is None else newest
        if newest is None:
            return f"{self._job} has no result"
        if self._complete and newest <= self._first:
            return f"no result of {self._job} is newer than interval {newest}, the newest at the start"
        if self._complete and completeness < 1:
            return f"the newest result of {self._job} has completeness {completeness:.3g}"
        say(f"{self._job}: interval {newest}, completeness {completeness:.3g}")
        return ""

"""`elf ok-to-stop`: answers whether agents can be stopped without a job losing the majority of its voters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.api.fleet_jobs import ask_all, job_rows
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, say
from elfmesh.errors import RuntimeFailure
from elfmesh.text import suggest

COLUMNS = ("job", "voters", "left", "lost")


@click.command("ok-to-stop")
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...")
@output_option
@api_option
def ok_to_stop_command(agents: tuple[str, ...], output: str, api: str | None) -> None:
    """Check whether each job keeps a majority of its voters while AGENT... are stopped.

    Voters that are dead, or have lost their votes, count as stopped too. Open windows are not lost: a stopped
    agent reads them again when it returns, and results lack it until then. The exit code is 0 if all jobs go
    on, and 1 with the jobs that would stop or have no master.
    Example: elf ok-to-stop web1 && ssh web1 systemctl restart elf
    """
    client = Client(api)
    rows = client.ask("agents")["agents"]
    names = {str(row.get("name")) for row in rows}
    for agent in agents:
        if agent not in names:
            hint = suggest(agent, sorted(names)) or "`elf get agents` lists the agents."
            raise RuntimeFailure(f"there is no agent {agent!r}", hint=hint)
    jobs = ask_all(client, job_rows(client.get("jobs"), rows))
    found = stopped_jobs(rows, [*jobs.described.values()], agents)
    found += [dict.fromkeys(COLUMNS) | {"job": job, "error": why} for job, why in sorted(jobs.silent.items())]
    number = len(jobs.described) + len(jobs.silent)
    if output == "json":
        print_json({"ok": not found, "jobs": found})
    elif found or output == "csv":
        print_rows(output, COLUMNS, found)
    if found:
        for job, why in sorted(jobs.silent.items()) if output == "table" else ():
            say(f"{job}: {why}")
        raise RuntimeFailure(f"{len(found)} of {number} jobs would have no majority of their voters")
    if output == "table":
        say(f"all {number} jobs keep a majority of their voters")


def stopped_jobs(
    agents: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], stopping: Collection[str]
) -> list[dict[str, Any]]:
    """Return the jobs that would have no majority, with their voters: all, those left, and those lost.

    Args:
        agents: rows of `elf get agents`.
        jobs: descriptions of all jobs.
        stopping: names of the agents that are about to be stopped.
    """
    gone = {str(row["address"]) for row in agents if row["status"] == "dead" or row["name"] in stopping}
    name_of = {str(row["address"]): str(row["name"]) for row in agents}
    found = []
    for job in jobs:
        lost = [each for each in job["voters"] if each in gone or each in job.get("voters_without_votes", ())]
        if 2 * len(lost) >= len(job["voters"]):
            names = [name_of.get(each, each) for each in lost]
            voters, left = len(job["voters"]), len(job["voters"]) - len(lost)
            found.append({"job": job["job"], "voters": voters, "left": left, "lost": names})
    return found

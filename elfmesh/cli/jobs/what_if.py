"""`elf what-if`: prints what the result of every job would be worth if a rack, zone or host were lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, say
from elfmesh.errors import RuntimeFailure, UsageError

COLUMNS = ("job", "worth", "members", "voters", "next result")


@click.command("what-if")
@click.option(
    "--lose", "losses", multiple=True, metavar="LABEL=VALUE",
    help="Lose all agents with this label, or agent=NAME; repeatable: lost together.",
)  # fmt: skip
@click.option("--each", "label", metavar="LABEL", help="Lose each value of a label, one after the other.")
@click.option("--job", metavar="JOB", help="Only this job.")
@output_option
@api_option
def what_if_command(
    losses: tuple[str, ...], label: str | None, job: str | None, output: str, api: str | None
) -> None:
    """Print what the result of every job would be worth if agents were lost.

    WORTH is the fidelity of later windows: the share of the usual input that a result represents. Behind it
    stand the bounds for a join, which hold whichever records belong together. The exit code is 1 if a job
    would have no result. Example: elf what-if --lose rack=r3
    """
    from elfmesh.api.what_if import domain_values, lost_agents

    if bool(losses) == bool(label):
        raise UsageError("what is lost?", hint="Write --lose rack=r3, or --each rack.")
    client = Client(api)
    agents = client.ask("agents")["agents"]
    jobs = [client.describe(row["job"]) for row in client.ask("list")["jobs"]]
    wanted = None if job is None else str(client.describe(job)["job"])
    cases = [[_pair(each) for each in losses]]
    if label is not None:
        cases = [[(label, value)] for value in domain_values(agents, label)]
    stopped: set[str] = set()
    for case in cases:
        lost = lost_agents(agents, case)
        stopped |= _print(agents, jobs, lost, " ".join("=".join(each) for each in case), wanted, output)
    if stopped:
        raise RuntimeFailure(f"{len(stopped)} jobs would have no result: {', '.join(sorted(stopped))}")


def _pair(text: str) -> tuple[str, str]:
    label, equals, value = text.partition("=")
    if not (label and equals and value):
        raise UsageError(f"--lose {text}: write LABEL=VALUE")
    return label, value


def _print(
    agents: Sequence[Mapping[str, Any]],
    jobs: Sequence[Mapping[str, Any]],
    lost: list[str],
    case: str,
    wanted: str | None,
    output: str,
) -> set[str]:
    """Print one case, and return the jobs that would have no result."""
    from elfmesh.api.what_if import NONE, worth_without

    found = [each for each in worth_without(agents, jobs, lost) if wanted in (None, each.job)]
    if output == "json":
        print_json({"lost": case, "agents": lost, "jobs": [asdict(each) for each in found]})
        return {each.job for each in found if each.next_result == NONE}
    if output == "table":
        alive = [each for each in agents if each["status"] != "dead"]
        led = sum(each["master"] in lost for each in jobs)
        shown = ", ".join(lost[:4]) + (", ..." if len(lost) > 4 else "")
        noun = "job" if led == 1 else "jobs"
        say(f"{case}: {len(lost)} of {len(agents)} agents ({shown}); masters of {led} {noun}")
        if all(each["name"] in lost for each in alive):
            say("nothing remains")
    rows = []
    for each in found:
        exact = each.at_most - each.at_least < 0.005
        bounds = "" if exact else f"  join: {each.at_least:.2f} .. {each.at_most:.2f}"
        left = f"{each.voters_left} of {each.voters}"
        values = (
            each.job,
            f"{each.fidelity:.2f}{bounds}",
            f"{each.members - len(each.lost)} of {each.members}",
        )
        rows.append(dict(zip(COLUMNS, (*values, left, each.next_result), strict=True)))
    print_rows(output, COLUMNS, rows)
    return {each.job for each in found if each.next_result == NONE}

"""`elf what-if`: prints what the result of every job would be worth if a rack, zone or host were lost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, say
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_changes import MeasuredLoss
from elfmesh.errors import RuntimeFailure, UsageError
from elfmesh.units import format_rate

if TYPE_CHECKING:
    from elfmesh.api.fleet_jobs import FleetJobs
    from elfmesh.api.what_if import JobLoss, LossCase

POLL_S = 0.25
GONE_SHOWN = 3
"""Lost rows that a line of the table names."""

COLUMNS = ("job", "worth", "kept", "members", "voters", "next result")


@click.command("what-if")
@click.option(
    "--lose", "losses", multiple=True, metavar="LABEL=VALUE",
    help="Lose all agents with this label, or agent=NAME; repeatable: lost together.",
)  # fmt: skip
@click.option("--each", "label", metavar="LABEL", help="Lose each value of a label, one after the other.")
@click.option("--job", metavar="JOB", help="Only this job.")
@click.option(
    "--interval", type=int, metavar="I",
    help="With --each and --job: measure it. Agents compute this closed interval again from their raw logs.",
)  # fmt: skip
@output_option
@api_option
def what_if_command(
    losses: tuple[str, ...],
    label: str | None,
    job: str | None,
    interval: int | None,
    output: str,
    api: str | None,
) -> None:
    """Print what the result of every job would be worth if agents were lost.

    WORTH is the fidelity of later windows: the share of the usual input that a result represents. Behind it
    stand the bounds for a join, which hold whichever records belong together. A job without a
    master has no result already. The exit code is 1 if a job would have no result.
    Example: elf what-if --lose rack=r3
    """
    from elfmesh.api.fleet_jobs import ask_all, job_rows
    from elfmesh.api.what_if import cases

    if bool(losses) == bool(label):
        raise UsageError("what is lost?", hint="Write --lose rack=r3, or --each rack.")
    client = Client(api)
    if interval is not None:
        if label is None or job is None:
            raise UsageError("--interval needs --each and --job")
        _measure(client, job, interval, label, output)
        return
    agents = client.ask("agents")["agents"]
    jobs = ask_all(client, job_rows(client.get("jobs"), agents))
    found = cases(agents, jobs, losses, label, job)
    for case in found:
        if output == "json":
            print_json(case.as_json())
        else:
            _print(case, agents, jobs, output)
    if stopped := sorted({name for case in found for name in case.stopped}):
        noun = "job" if len(stopped) == 1 else "jobs"
        raise RuntimeFailure(f"{len(stopped)} {noun} would have no result: {', '.join(stopped)}")


def _measure(client: Client, job: str, interval: int, label: str, output: str) -> None:
    """Print what the rows of a closed interval would have been without each value of a label."""
    found = client.ask("measure", job, interval=interval, each=label, again=True)
    while (outcome := read_reply(MeasuredLoss, found)).state == "running":
        time.sleep(POLL_S)
        found = client.ask("measure", job, interval=interval, each=label)
    if outcome.state != "measured":
        why = "; ".join(f"{each['agent']}: {each['error']}" for each in outcome.errors or [])
        raise RuntimeFailure(str(outcome.error or f"the interval cannot be computed again: {why}"), where=job)
    if output == "json":
        print_json(found)
        return
    columns = (label, "fidelity", f"of the top {outcome.rows} stay", "values off by")
    rows = []
    for each in outcome.cases or []:
        gone = [", ".join(str(value) for value in row.values()) for row in each["gone"][:GONE_SHOWN]]
        more = ", ..." if each["stay"] is not None and outcome.rows - each["stay"] > len(gone) else ""
        stay = "" if each["stay"] is None else str(each["stay"])
        stay += f"  without {'; '.join(gone)}{more}" if gone else ""
        off = "" if each["error"] is None else f"{100 * each['error']:.1f} %"
        rows.append(dict(zip(columns, (each["lost"], f"{each['fidelity']:.2f}", stay, off), strict=True)))
    print_rows(output, columns, rows)


def _when(loss: JobLoss) -> str:
    late_s = f", at most {loss.late_seconds:g} s late" if loss.late_seconds else ""
    return f"{loss.next_result}{late_s}"


def _print(case: LossCase, agents: Sequence[Mapping[str, Any]], jobs: FleetJobs, output: str) -> None:
    if output == "table":
        lost = case.agents
        alive = [each for each in agents if each["status"] != "dead"]
        led = sum(each["master"] in lost for each in jobs.described.values())
        shown = ", ".join(lost[:4]) + (", ..." if len(lost) > 4 else "")
        noun = "job" if led == 1 else "jobs"
        say(f"{case.lost}: {len(lost)} of {len(agents)} agents ({shown}); masters of {led} {noun}")
        if all(each["name"] in lost for each in alive):
            say("nothing remains")
        for name, error in sorted(case.silent.items()):
            say(f"{name}: {error}")
        for each in case.jobs:
            if each.standby is not None:
                ships = f"{each.standbys} of {each.members} members"
                rate = format_rate(each.standby_bytes_per_second)
                say(f"{each.job}: STANDBY {each.standby}: {ships} ship {rate}")
    rows = []
    for each in case.jobs:
        exact = each.at_most - each.at_least < 0.005
        bounds = "" if exact else f"  join: {each.at_least:.2f} .. {each.at_most:.2f}"
        left = f"{each.voters_left} of {each.voters}"
        values = (
            each.job,
            f"{each.fidelity:.2f}{bounds}",
            f"{each.kept:.2f}",
            f"{each.members - len(each.lost)} of {each.members}",
        )
        rows.append(dict(zip(COLUMNS, (*values, left, _when(each)), strict=True)))
    silent = ("no master", "", "", "", "none already")
    rows += [dict(zip(COLUMNS, (name, *silent), strict=True)) for name in sorted(case.silent)]
    print_rows(output, COLUMNS, rows)

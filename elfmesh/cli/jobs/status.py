"""`elf status`: shows on one screen whether the fleet is well, and what is wrong otherwise.

The module decides which facts about agents and jobs are a problem (`problems`) and prints them. The facts
come from the lists of `elf get` and from `elf why`. A fact that an older agent does not report is no problem.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, print_rows, text_of
from elfmesh.control.jobs.load import insecurity, seconds_at, warnings_of
from elfmesh.errors import RuntimeFailure
from elfmesh.units import format_duration

HELD_S = 5.0
"""A job that waits longer than this for an interval is a problem. A shorter wait is that of a busy agent."""

WELL = ("running", "paused", "complete")
"""States of a job that are no problem."""

COLUMNS = ("kind", "name", "problem")
JOB_COLUMNS = ("job", "state", "agents", "completeness", "held", "missing", "master")
JOBS_SHOWN = 20
"""Number of jobs on the screen; `elf get jobs` lists all."""


class FleetProblem(NamedTuple):
    """What is wrong with one agent or job."""

    kind: str
    name: str
    problem: str


@click.command("status")
@output_option
@api_option
def status_command(output: str, api: str | None) -> None:
    """Show whether all agents and jobs are well, and what is wrong.

    A problem is an agent that is dead, does not answer or reports a fault; and a job whose newest result is
    incomplete, that waits for an agent, or that has no majority of its voters. The exit code is 0 without a
    problem, 1 with one, and 69 if the agent at --api does not answer.

    Example: elf status || elf why web/top_paths
    """
    client = Client(api)
    agents, jobs = client.ask("agents"), client.ask("list")
    silent = agents["asked"]["expected"] - agents["asked"]["answered"]
    held = {job["job"]: client.why(job["job"]) for job in jobs["jobs"] if _held(job)}
    found = problems(agents["agents"], jobs["jobs"], held, silent, datetime.datetime.now(datetime.UTC))
    if output == "json":
        _print_json(agents["agents"], jobs["jobs"], found)
    elif output == "csv":
        print_rows("csv", COLUMNS, [each._asdict() for each in found])
    else:
        _print_screen(agents["agents"], jobs["jobs"], found)
    if found:
        count = f"{len(found)} problem{'s' if len(found) > 1 else ''}"
        raise RuntimeFailure(count, hint="`elf why JOB` and `elf describe agent NAME` show details.")


def problems(
    agents: Sequence[Mapping[str, Any]],
    jobs: Sequence[Mapping[str, Any]],
    held: Mapping[str, Mapping[str, Any]],
    silent: int,
    now: datetime.datetime,
) -> list[FleetProblem]:
    """Return what is wrong, agents first.

    Args:
        agents: rows of `elf get agents`.
        jobs: rows of `elf get jobs`.
        held: the answer of `elf why` for each job that waits too long for an interval.
        silent: number of agents that should have answered and did not.
        now: the present time, for the expiry of certificates and the age of dead agents.
    """
    found = [
        FleetProblem("agent", str(row.get("name")), text) for row in agents for text in _of_agent(row, now)
    ]
    missing = silent - sum(row.get("status") == "dead" for row in agents)
    if missing > 0:
        found.append(FleetProblem("agent", "", f"{missing} of the agents did not answer"))
    if warning := insecurity(agents):
        found.append(FleetProblem("agent", "", warning))
    return found + [
        FleetProblem("job", str(row["job"]), text)
        for row in jobs
        for text in _of_job(row, held.get(row["job"]))
    ]


def _of_agent(row: Mapping[str, Any], now: datetime.datetime) -> Iterable[str]:
    if row.get("status") == "dead":
        seen_s = seconds_at(row.get("last_seen"))
        ago = None if seen_s is None else f", last seen {_duration(max(0.0, now.timestamp() - seen_s))} ago"
        yield f"dead{ago or ''}"
        return
    health: Mapping[str, Any] = row.get("health") or {}
    if health.get("status", "ok") != "ok":
        yield f"{health['status']}: {health.get('problem') or 'no reason given'}"
    for part in ("sinks", "archives", "slowed"):
        for name, why in sorted((health.get(part) or {}).items()):
            yield f"{part.removesuffix('s')} {name}: {why}"
    yield from warnings_of(row, now.timestamp())


def _held(row: Mapping[str, Any]) -> bool:
    return (row.get("held_for_seconds") or 0.0) > HELD_S


def _of_job(row: Mapping[str, Any], why: Mapping[str, Any] | None) -> Iterable[str]:
    if row.get("state") not in WELL:
        yield str(row.get("state"))
        return
    completeness = row.get("completeness")
    if completeness is not None and completeness < 1:
        names = ", ".join(row.get("missing") or []) or "no agent"
        yield f"its newest result has completeness {completeness:.3g}; missing: {names}"
    if why is not None:
        yield f"waits for {_duration(row['held_for_seconds'])}: {why['because']}"


def _duration(seconds: float) -> str:
    return format_duration(round(seconds) * 1_000_000)


def _print_json(agents: Sequence[Any], jobs: Sequence[Any], found: Sequence[FleetProblem]) -> None:
    print_json(
        {
            "ok": not found,
            "agents": {
                "alive": sum(row.get("status") != "dead" for row in agents),
                "dead": [row.get("name") for row in agents if row.get("status") == "dead"],
            },
            "jobs": [{name: row.get(name) for name in _JSON_OF_JOB} for row in jobs],
            "problems": [each._asdict() for each in found],
        }
    )


_JSON_OF_JOB = (
    *("job", "state", "version", "agents", "latest", "result", "completeness"),
    *("missing", "held_for_seconds", "master"),
)


def _print_screen(agents: Sequence[Any], jobs: Sequence[Any], found: Sequence[FleetProblem]) -> None:
    dead = sum(row.get("status") == "dead" for row in agents)
    states = Counter(row.get("state") for row in jobs)
    ended = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    line = f"{len(agents) - dead} of {len(agents)} agents are alive; {ended or 'no'} jobs"
    click.secho(text_of(line if len(jobs) != 1 else line.removesuffix("s")), bold=True)
    if found:
        click.echo()
        print_rows("table", COLUMNS, [each._asdict() for each in found])
    if jobs:
        click.echo()
        wrong = {each.name for each in found if each.kind == "job"}
        first = sorted(jobs, key=lambda row: (row["job"] not in wrong, row["job"]))
        print_rows("table", JOB_COLUMNS, [_job_cells(row) for row in first[:JOBS_SHOWN]])
        if len(jobs) > JOBS_SHOWN:
            click.echo(f"and {len(jobs) - JOBS_SHOWN} more: elf get jobs")


def _job_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    completeness = row.get("completeness")
    return {
        **row,
        "completeness": None if completeness is None else f"{completeness:.1%}",
        "held": _duration(row["held_for_seconds"]) if _held(row) else None,
    }

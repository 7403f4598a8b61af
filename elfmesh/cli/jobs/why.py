"""`elf why`: shows which interval and which agents delay a job, and the story of an interval."""

from __future__ import annotations

from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import (
    api_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    say,
    text_of,
)
from elfmesh.control.protocol.replies import Story, StoryStep, Why, read_reply
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError

COLUMNS = ("agent", "state", "frontier", "behind", "dead_for_seconds", "error")
STEPS = ("seconds", "agent", "kind", "peer", "detail", "times", "step", "cause")
STORY = ("after end", "agent", "step", "with", "detail")
GROUPED = 4
"""Steps of one kind are one line if there are so many: each member seals and sends."""

NAMED = 3
NEWEST = "newest"
"""The value of `--trace` without an interval."""


@click.command("why")
@job_argument
@click.option(
    "--trace",
    metavar="[INTERVAL]",
    is_flag=False,
    flag_value=NEWEST,
    help="Show the story of an interval instead: what each agent did for it. [default: the newest closed]",
)
@output_option
@api_option
def why_command(job: str, trace: str | None, output: str, api: str | None) -> None:
    """Show what delays JOB: the interval, since when, and the agents."""
    if trace is not None:
        _trace(job, trace, output, api)
        return
    client = Client(api)
    found = client.why(job)
    if output == "json":
        print_json(found)
        return
    if output == "csv":
        print_rows("csv", COLUMNS, found["agents"])
        return
    why = read_reply(Why, found)
    if (interval := why.interval) is not None:
        span = f"interval {interval.index}  {interval.start} .. {interval.end}"
        click.secho(f"{span}  {why.inside}/{why.expected} agents in", bold=True)
    click.echo(text_of(why.because))
    if newest := why.newest or None:
        lacks = f", missing: {', '.join(newest.missing)}" if newest.missing else ""
        reported = f"newest record: interval {newest.index}, {newest.state}"
        click.echo(text_of(f"{reported}, completeness {newest.completeness:.3g}{lacks}"))
    if why.tentative_rev:
        click.echo(f"published meanwhile as TENTATIVE rev {why.tentative_rev}: elf results --state all")
    if found["agents"]:
        print_rows("table", COLUMNS, found["agents"])
    _print_alerts(client, job)


def _print_alerts(client: Client, job: str) -> None:
    from elfmesh.api.client.job_alerts import job_alerts

    try:
        rows = job_alerts(client, job)
    except (RuntimeFailure, Unreachable) as error:  # the job has no master, as the lines before state
        say(f"the alerts are unknown: {error.message}")
        return
    for row in rows:
        labels = ", ".join(f"{name}={value}" for name, value in row["labels"].items())
        since = f" since {row['since']}" if row["since"] else ""
        reason = f", not evaluated since {row['not_evaluated_since']}" if row["not_evaluated_since"] else ""
        click.echo(text_of(f"alert {row['alert']} ({labels or 'all'}): {row['state']}{since}{reason}"))


def _trace(job: str, interval: str, output: str, api: str | None) -> None:
    try:
        index = None if interval == NEWEST else int(interval)
    except ValueError:
        raise UsageError(f"{interval!r} is not the number of an interval") from None
    found = Client(api).story(job, index)
    if output == "json":
        print_json(found)
        return
    if output == "csv":
        print_rows("csv", STEPS, found["steps"])
        return
    story = read_reply(Story, found)
    about = story.interval
    complete = "" if story.completeness is None else f", completeness {story.completeness:.3g}"
    state = "open" if story.state is None else f"{story.state}{complete}"
    click.secho(f"interval {about.index}  {about.start} .. {about.end}  {text_of(state)}", bold=True)
    print_rows("table", STORY, _lines(story.steps))
    for each in story.without:
        click.echo(text_of(f"without a step: {each.agent} ({each.reason})"))


def _lines(steps: list[StoryStep]) -> list[dict[str, Any]]:
    kinds: dict[str, list[StoryStep]] = {}
    for step in steps:
        kinds.setdefault(step.kind, []).append(step)
    lines: list[tuple[str, ...]] = []
    for step in steps:
        alike, after = kinds[step.kind], f"{step.seconds:+.3f} s"
        if len(alike) < GROUPED:
            times = f" ({step.times} times)" if step.times > 1 else ""
            lines.append((after, step.agent, step.kind, step.peer, step.detail + times))
        elif step is alike[0]:
            agents, peers = _names([each.agent for each in alike]), _names([each.peer for each in alike])
            until = f"{len(alike)} steps until {alike[-1].seconds:+.3f} s"
            lines.append((after, agents, step.kind, peers, until))
    return [dict(zip(STORY, line, strict=True)) for line in lines]


def _names(given: list[str]) -> str:
    names = list(dict.fromkeys(name for name in given if name))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more

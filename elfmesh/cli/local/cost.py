"""`elf explain --cost`: what each agent would read for a query or a job, as a table or as JSON."""

from __future__ import annotations

from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import print_table, say
from elfmesh.cli.jobs.names import stream_names
from elfmesh.cli.jobs.stream_query import range_clause, times_clause
from elfmesh.cli.local.log_options import times_of
from elfmesh.errors import ConfigError, DataError, UsageError
from elfmesh.ql.values.row_json import encode_json
from elfmesh.text import printable, suggest
from elfmesh.units import parse_duration_us, shown_size

COLUMNS = ("AGENT", "STREAM", "FILES", "BYTES", "LINES", "SECONDS", "RATE", "FROM")


def range_of(given: dict[str, str | None]) -> str:
    """Return the clause of the options of `elf query` for a range of time, by their names; "": none is given.

    Raises:
        UsageError: a value is wrong, or two options exclude each other.
    """
    durations: dict[str, int | None] = {}
    for name in ("history", "until"):
        try:
            text = given[name]
            durations[name] = None if text is None else parse_duration_us(text)
        except ConfigError as error:
            raise UsageError(error.message, where=f"--{name}", hint=error.hint) from None
    begin, end = times_of({name: given[name] for name in ("begin", "end")})
    is_dated = begin is not None or end is not None
    if is_dated and any(each is not None for each in durations.values()):
        raise UsageError("--from and --to exclude --history and --until")
    if is_dated:
        return times_clause(begin, end)
    return range_clause(durations["history"], durations["until"]) if any(given.values()) else ""


def print_cost(api: str | None, text: str, clause: str, output: str) -> None:
    """Print what a text costs; `clause` is the range of a query.

    Raises:
        QueryError: the text is wrong.
        DataError: no agent has a stream of it.
        Unreachable: no agent answers.
    """
    client = Client(api)
    found = client.cost(text, clause)
    there = stream_names(client) if not found["agents"] and found["streams"] else ()
    if missing := [name for name in found["streams"] if not found["agents"] and name not in there]:
        hint = suggest(missing[0], there) or "`elf get streams` lists them."
        raise DataError(f"no agent has a stream {missing[0]}", hint=hint)
    if output == "json":
        click.echo(encode_json(found).decode())
        return
    if not found["streams"]:
        click.echo("it reads results of jobs, and no logs")
        return
    rows = [_row(agent, stream) for agent in found["agents"] for stream in agent["streams"]]
    if rows:
        print_table(COLUMNS, rows)
    for line in _summary(found):
        click.echo(printable(line))
    asked = found["asked"]
    if (silent := asked["expected"] - asked["answered"]) > 0:
        say(f"{silent} of {asked['expected']} agents did not answer")


def _row(agent: dict[str, Any], stream: dict[str, Any]) -> list[Any]:
    rate = stream["bytes_per_second"]
    return [
        agent["agent"], stream["stream"], stream["files"], shown_size(stream["bytes"]), stream["lines"],
        stream["seconds"], None if rate is None else f"{shown_size(rate)}/s",
        stream["measured_on"] if rate is not None else None,
    ]  # fmt: skip


def _summary(found: dict[str, Any]) -> list[str]:
    refused = [agent for agent in found["agents"] if agent["refusal"]]
    count = len(found["agents"]) - len(refused)
    lines, seconds = found["lines"], found["seconds"]
    words = [f"{count} agent{'' if count == 1 else 's'}", f"{shown_size(found['bytes'])} to read"]
    words += [] if lines is None else [f"about {lines} lines"]
    words += ["no rate is measured yet" if seconds is None else f"about {seconds:.3g} s"]
    sums = [", ".join(words)]
    if found["estimated"]:
        guess = f"{shown_size(found['estimated'])} of it are an estimate"
        sums.append(f"{guess}, because compressed files do not state their size")
    return [*sums, *(f"{agent['agent']} refuses it: {agent['refusal']}" for agent in refused)]

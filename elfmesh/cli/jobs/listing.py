"""`elf get` and `elf describe`: list the objects of a fleet, or show one of them.

A list lacks the agents that do not answer in time. Both commands then print how many agents answered, because
the list alone looks like that of a smaller fleet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from elfmesh.api.client.client import KINDS, Client
from elfmesh.cli.common import (
    api_option,
    complete_jobs,
    output_option,
    print_json,
    print_rows,
    print_table,
    rows_output_option,
    say,
    text_of,
)
from elfmesh.control.jobs.load import insecurity, security_of
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.text import printable, suggest

WATCH_S = 2.0
QUERIES, ALERTS, PLUGINS = "queries", "alerts", "plugins"
COLUMNS = {
    "jobs": (
        *("job", "version", "state", "stream", "agents", "latest", "result", "completeness", "missing"),
        *("master", "created"),
    ),
    "agents": (
        *("name", "status", "last_seen", "address", "labels", "streams", "jobs", "masters"),
        *("skew_seconds", "security"),
    ),
    "alerts": ("alert", "job", "labels", "state", "since", "condition", "not_evaluated_since"),
    "plugins": ("agent", "kind", "plugin", "package", "version", "problem"),
    "queries": ("query", "creator", "state", "stream", "agents", "created"),
    "streams": ("stream", "formats", "agents"),
    "trees": ("tree", "job", "agent", "root", "depth", "size", "children"),
}


@click.command("get")
@click.argument("kind", type=click.Choice((*KINDS, QUERIES, ALERTS, PLUGINS)))
@click.option("--watch", is_flag=True, help="Refresh the list every two seconds.")
@rows_output_option
@api_option
def get_command(kind: str, watch: bool, output: str, output_file: Path | None, api: str | None) -> None:
    """List the jobs, agents, streams, trees, alerts or plug-ins of the overlay, or the queries that run.

    Example: elf get jobs -o vertical
    """
    if watch and output_file is not None:
        raise UsageError("--watch prints lists without end, and a Parquet file has one")
    client = Client(api)
    first = True
    while True:
        rows, silent = _listed(client, kind)
        if watch and output == "table" and not first:
            click.clear()
        if output_file is not None:
            from elfmesh.local.parquet_file import parquet_file, table_of

            with parquet_file(output_file) as found:
                found.write(table_of(COLUMNS[kind], rows))
        elif rows or output != "table":
            if kind == "agents" and (warning := insecurity(rows)):
                say(warning)
            shown = [_flat(row) for row in _distinguished(rows)] if output == "table" else rows
            print_rows(output, COLUMNS[kind], shown, cut=True)
        else:
            say(f"There are no {kind}.")
        if silent:
            say(f"{silent}: the list may be incomplete.")
        first = False
        if not watch:
            return
        time.sleep(WATCH_S)


def _listed(client: Client, kind: str) -> tuple[list[dict[str, Any]], str]:
    """Return the list of all agents, and "4 of 5 agents answered" if some did not answer."""
    answer = client.ask(
        "agents" if kind == PLUGINS else "list" if kind in ("jobs", QUERIES, ALERTS) else kind
    )
    answered, expected = answer["asked"]["answered"], answer["asked"]["expected"]
    silent = f"{answered} of {expected} agents answered" if answered < expected else ""
    if kind == PLUGINS:
        return [each for row in answer["agents"] for each in _plugins(row)], silent
    if kind == QUERIES:
        return [{"query": row["job"], **row} for row in answer["jobs"] if row.get("leased")], silent
    if kind == ALERTS:
        from elfmesh.api.client.job_alerts import job_alerts

        jobs = [str(row["job"]) for row in answer["jobs"] if not row.get("leased")]
        return [row for job in jobs for row in job_alerts(client, job)], silent
    return answer[kind], silent


def _plugins(agent: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place, package in sorted(agent.get("plugins", {}).items()):
        kind, _, name = place.partition("/")
        of, _, version = package.rpartition(" ")
        about = {"agent": agent["name"], "kind": kind, "plugin": name, "package": of, "version": version}
        yield about | {"problem": None}
    for each in agent.get("refused_plugins", ()):  # an agent of an earlier release does not send them
        about = {key: value for key, value in each.items() if key != "reason"}
        yield {"agent": agent["name"]} | about | {"problem": f"not used: {each['reason']}"}


def _distinguished(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = Counter(row.get("name") for row in rows)
    return [
        {**row, "name": f"{row['name']} ({str(row['id'])[:6]})"}
        if "name" in row and names[row["name"]] > 1
        else row
        for row in rows
    ]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = dict(row)
    for key, value in row.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            flat[key] = [item.get("name", item) for item in value]
    if "security" in row:
        flat["security"] = security_of(row)
    if "tree" in flat:
        flat["tree"] = str(flat["tree"])[:12]
    if "children" in flat and isinstance(flat["children"], list):
        flat["children"] = len(flat["children"])
    return flat


@click.command("describe")
@click.argument("kind", type=click.Choice(("job", "agent", "stream", "log")))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobs)
@click.option("--format", "spec", default="auto", show_default=True, help="With log: format, as in elf run.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="With log: read the first N lines.")
@click.option("--ts", default="", metavar="FIELD", help="With log: field with the event time.")
@click.option("--ts-format", default="", metavar="PATTERN", help="With log: its pattern, as in elf run.")
@output_option
@api_option
def describe_command(
    kind: str,
    names: tuple[str, ...],
    spec: str,
    sample: int | None,
    ts: str,
    ts_format: str,
    output: str,
    api: str | None,
) -> None:
    """Show the details of one job, agent or stream, or of log files.

    A log needs no agent: `elf describe log access.log` shows the format and how many of the first lines are
    of it, the bad lines, the time and the rate, and each column with its type, extremes and samples.
    """
    if kind == "log":
        from elfmesh.cli.local.describe_log import describe_logs

        describe_logs(list(names), spec, sample, output, ts=ts, ts_format=ts_format)
        return
    if len(names) > 1:
        raise UsageError(f"one {kind} at a time", hint="Only `elf describe log` takes several names.")
    if spec != "auto" or sample is not None or ts or ts_format:
        raise UsageError(f"--format, --sample, --ts and --ts-format are for log files, not for {kind}s")
    client, name = Client(api), names[0]
    if kind == "job":
        found = client.describe(name)
        if output == "json":
            found |= {"master": {"name": found["master"], "epoch": found["epoch"]}}
    else:
        key = "name" if kind == "agent" else "stream"
        rows, silent = _listed(client, f"{kind}s")
        match = [row for row in rows if row.get(key) == name or str(row.get("id", "")).startswith(name)]
        if not match and silent:
            raise Unreachable(f"{silent}, and none of them lists {kind} {name!r}", hint="Ask again.")
        if not match:
            hint = (
                suggest(name, [str(row.get(key)) for row in rows]) or f"`elf get {kind}s` lists the {kind}s."
            )
            raise RuntimeFailure(f"there is no {kind} {name!r}", hint=hint)
        found = match[0]
    if output == "json":
        print_json(found)
    elif output == "csv":
        print_rows("csv", list(found), [found])
    else:
        _print_description(found)


def _print_description(found: dict[str, Any]) -> None:
    for key, given in found.items():
        value = _counted(given) if key == "counts" else given
        if key == "text":
            click.echo("text:")
            for line in str(value).splitlines():
                click.echo(f"    {printable(line)}")
        elif isinstance(value, dict) and isinstance(value.get("agents"), list):
            click.echo(f"{key}: version {value.get('version')}")
            _print_objects(value["agents"])
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            click.echo(f"{key}:")
            _print_objects(value)
        elif isinstance(value, list) and value:
            click.echo(f"{key}:")
            for item in value:
                click.echo(f"    {text_of(item)}")
        else:
            click.echo(f"{key}: {text_of(value) or '-'}")


def _print_objects(items: list[dict[str, Any]]) -> None:
    columns = list(items[0])
    rows = [{**item, "counts": _counted(item.get("counts"))} for item in items]
    print_table(["   ", *columns], [["", *(row.get(column) for column in columns)] for row in rows])


def _counted(counts: Any) -> Any:
    return {name: count for name, count in counts.items() if count} if isinstance(counts, dict) else counts

"""The commands that talk to agents: apply, get, describe, results, pause, resume, delete.

Owns what the user types and sees; the agents' answers come through `client`. Errors are raised as our own
tree: the `elf` group turns them into messages and exit codes.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import click

from elfmesh.api.client.client import KINDS, Client
from elfmesh.cli.common import (
    api_option,
    complete_jobs,
    creator_option,
    file_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    print_table,
    read_signatures,
    say,
    signature_option,
    text_of,
    with_caret,
    within,
)
from elfmesh.cli.host.health import health_command
from elfmesh.cli.host.leave import leave_command
from elfmesh.cli.jobs.names import note_unknown_streams
from elfmesh.cli.jobs.publish import publish_command
from elfmesh.cli.jobs.query import query_command
from elfmesh.cli.jobs.results import results_command
from elfmesh.cli.jobs.tap import tap_command
from elfmesh.cli.jobs.top import top_command
from elfmesh.cli.jobs.update import (
    APPLIED,
    delete_command,
    empty_command,
    print_applied,
    revoke_command,
    rollout_group,
    update_command,
)
from elfmesh.cli.jobs.verify import verify_command
from elfmesh.cli.jobs.why import why_command
from elfmesh.control.jobs.load import insecurity, security_of
from elfmesh.control.jobs.signing import text_digest
from elfmesh.errors import DataError, QueryError, RuntimeFailure
from elfmesh.local.text_input import read_text
from elfmesh.text import printable, suggest

WATCH_S = 2.0
COLUMNS = {
    "jobs": (
        *("job", "version", "state", "stream", "agents", "latest", "result", "completeness", "missing"),
        *("master", "created"),
    ),
    "agents": (
        *("name", "status", "last_seen", "address", "labels", "streams", "jobs", "masters"),
        *("skew_seconds", "security"),
    ),
    "streams": ("stream", "formats", "agents"),
    "trees": ("tree", "job", "agent", "root", "depth", "size", "children"),
}


@click.command("apply")
@file_option
@signature_option
@click.option("--dry-run", is_flag=True, help="Print what the command would do, and do nothing.")
@click.option("--strict", is_flag=True, help="Refuse a job if no agent has its stream.")
@creator_option
@output_option
@api_option
def apply_command(
    path: str,
    signature: str | None,
    dry_run: bool,
    strict: bool,
    creator: str | None,
    output: str,
    api: str | None,
) -> None:
    """Submit the jobs in FILE, or update those that are already running."""
    client = Client(api)
    text, source = read_text(path)
    envelopes = read_signatures(path, signature)
    jobs = _statements(text, source)
    for _, _, streams in jobs:
        note_unknown_streams(client, streams, strict=strict)
    for job in jobs:
        old = _text_of_job(client, job[1]) if output == "table" else None
        try:
            signed = envelopes.get(text_digest(job[0]), "")
            answer = client.apply(job[0], creator=creator, dry_run=dry_run, source=source, signed=signed)
        except QueryError as error:
            raise within(error, text, job[0], source) from None
        if output == "table":
            print_applied(answer, old, job[0])
        elif output == "json":
            print_json(answer)
        else:
            print_rows(output, APPLIED, [answer])


def _statements(text: str, source: str) -> list[tuple[str, str, list[str]]]:
    from elfmesh.ql import job_read, parse_many

    try:
        statements = parse_many(text, source=source)
    except QueryError as error:
        raise with_caret(error, text) from None
    if not statements:
        raise DataError("the file contains no job", where=source)
    jobs = []
    for statement in statements:
        if statement.job is None:
            hint = "Begin it with CREATE JOB namespace.name AS, or run it with `elf run`."
            place = statement.origin.place(statement.offset)
            what = "a query without a name cannot be applied"
            raise with_caret(
                QueryError(what, line=place.line, column=place.column, source=source, hint=hint), text
            )
        streams = [name for name in statement.streams if not job_read(name)]
        jobs.append((statement.text, statement.job.qualified, streams))
    return jobs


def _text_of_job(client: Client, job: str) -> str | None:
    try:
        return str(client.describe(job).get("text", ""))
    except RuntimeFailure:
        return None


@click.command("get")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--watch", is_flag=True, help="Refresh the list every two seconds.")
@output_option
@api_option
def get_command(kind: str, watch: bool, output: str, api: str | None) -> None:
    """List the jobs, agents, streams or trees of the overlay."""
    client = Client(api)
    first = True
    while True:
        rows = client.get(kind)
        if watch and output == "table" and not first:
            click.clear()
        if rows or output != "table":
            if kind == "agents" and (warning := insecurity(rows)):
                say(warning)
            shown = [_flat(row) for row in _distinguished(rows)] if output == "table" else rows
            print_rows(output, COLUMNS[kind], shown)
        else:
            say(f"There are no {kind}.")
        first = False
        if not watch:
            return
        time.sleep(WATCH_S)


def _distinguished(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = Counter(row.get("name") for row in rows)
    return [
        {**row, "name": f"{row['name']} ({str(row['id'])[:6]})"}
        if "id" in row and names[row.get("name")] > 1
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
@click.argument("kind", type=click.Choice(("job", "agent", "stream")))
@click.argument("name", shell_complete=complete_jobs)
@output_option
@api_option
def describe_command(kind: str, name: str, output: str, api: str | None) -> None:
    """Show the details of one job, agent or stream."""
    client = Client(api)
    if kind == "job":
        found = client.describe(name)
    else:
        key = "name" if kind == "agent" else "stream"
        rows = client.get(f"{kind}s")
        match = [row for row in rows if row.get(key) == name or str(row.get("id", "")).startswith(name)]
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


def _change(name: str, summary: str) -> click.Command:
    @click.command(name, help=summary)
    @job_argument
    @output_option
    @api_option
    def command(job: str, output: str, api: str | None) -> None:
        answer = getattr(Client(api), name)(job)
        if output == "table":
            counts = ""
            if answer.get("expected"):
                counts = f" ({answer['acknowledged']} of {answer['expected']} agents)"
            click.echo(f"{printable(str(answer.get('job', job)))}: {text_of(answer.get('state'))}{counts}")
        else:
            print_rows(output, APPLIED, [answer])

    return command


pause_command = _change("pause", "Pause JOB. Agents stop reading for it, and its open intervals wait.")
resume_command = _change("resume", "Resume JOB. Agents continue reading where they stopped.")


def add_commands(group: click.Group) -> None:
    """Put the commands of this module into a group."""
    for command in (
        apply_command,
        get_command,
        describe_command,
        results_command,
        query_command,
        tap_command,
        top_command,
        why_command,
        verify_command,
        health_command,
        leave_command,
        update_command,
        publish_command,
        rollout_group,
        revoke_command,
        empty_command,
        pause_command,
        resume_command,
        delete_command,
    ):
        group.add_command(command)

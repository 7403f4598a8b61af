"""`elf savepoint`: saves a job and its results to a file, and continues a job from such a file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, job_argument, print_json, say, with_caret
from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.control.protocol.replies_changes import Applied
from elfmesh.errors import DataError, QueryError, RuntimeFailure
from elfmesh.version import VERSION

_NAMED = re.compile(r"(\bCREATE\s+JOB\s+)([A-Za-z0-9_.-]+)", re.IGNORECASE)
_FILE = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))


@click.group("savepoint")
def savepoint_group() -> None:
    """Save a job with its results to a file, or restore it in any overlay."""


@savepoint_group.command("create")
@job_argument
@click.option("-o", "--output", "path", required=True, metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help="Include only the results of the last N intervals. [default: all]",
)
@api_option
def create_command(job: str, path: Path, last: int | None, api: str | None) -> None:
    """Write a savepoint of JOB up to its first open interval. The job continues to run."""
    from elfmesh.api.savepoint import SavepointHeader, write
    from elfmesh.control.jobs.plan import read_plan
    from elfmesh.control.jobs.resuming import why_not

    client = Client(api)
    reported = read_reply(Description, client.describe(job))
    first, name = reported.closed_below, reported.job
    if problem := why_not(read_plan(reported.text)):
        raise RuntimeFailure(f"no savepoint of {name}: {problem}")
    if first is None:
        raise RuntimeFailure(f"{name} has not closed an interval yet", hint="Wait for its first result.")
    head = SavepointHeader(
        elf=VERSION,
        job=name,
        creator=reported.creator,
        text=reported.text,
        signed=reported.signed or "",
        version=reported.version,
        incarnation=reported.incarnation,
        size=reported.window["size"],
        slide=reported.window["slide"],
        first=first,
        agents=tuple(sorted(each.agent for each in reported.roster.agents)),
        made_us=time.time_ns() // 1000,
    )
    start = None if last is None else first - last
    count = write(path, head, _before(client, name, start, first))
    if read_reply(Description, client.describe(job)).incarnation != head.incarnation:
        path.unlink(missing_ok=True)
        raise RuntimeFailure(f"{name} has restarted with a new incarnation meanwhile", hint="Try again.")
    say(f"{path}: {name} version {head.version}, {count} results; it continues with interval {first}")


def _before(client: Client, job: str, start: int | None, first: int) -> Iterator[bytes]:
    for line in client.lines(job, start=start):
        if int(msgspec.json.decode(line)["interval"]["index"]) >= first:
            return
        yield line


@savepoint_group.command("restore")
@_FILE
@click.option("--as", "name", metavar="NAME", help="New name of the job. [default: its old name]")
@api_option
def restore_command(path: Path, name: str | None, api: str | None) -> None:
    """Start the job of a savepoint at the interval at which the savepoint ends.

    Agents read what they still have of their logs, including rotated files, and count records of earlier
    intervals as filtered. No job with the same name may be running.
    """
    from elfmesh.api.savepoint import read_head

    head = read_head(path)
    text = head.text if name is None else _renamed(head.text, name, path)
    same = text == head.text
    client = Client(api)
    try:
        signed = head.signed if same else ""
        answer = client.apply(text, creator=head.creator, source=str(path), signed=signed, first=head.first)
    except QueryError as error:
        raise with_caret(error, text) from None
    done = read_reply(Applied, answer)
    roster = read_reply(Description, client.describe(done.job)).roster
    there = {each.agent for each in roster.agents}
    have = f"{done.acknowledged} of {done.expected} agents have it"
    say(f"{done.job}: {have}, from interval {head.first} on")
    if head.signed and not same:
        say("the signatures of the savepoint are for its own name, so the renamed job has none")
    if missing := [each for each in head.agents if each not in there]:
        say(f"agents that are missing here, whose later records are not in the results: {', '.join(missing)}")
    if added := sorted(there - set(head.agents)):
        say(f"not in the savepoint, but contributing from interval {head.first} on: {', '.join(added)}")


def _renamed(text: str, name: str, path: Path) -> str:
    from elfmesh.control.jobs.plan import read_job

    try:
        namespace, short = split_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found, count = _NAMED.subn(lambda match: f"{match[1]}{namespace}.{short}", text, count=1)
    job, _ = read_job(found, source=str(path))
    if not count or (job.namespace, job.name) != (namespace, short):
        raise DataError(
            "the name in its text cannot be changed", where=str(path), hint="Restore it without --as."
        )
    return found


@savepoint_group.command("show")
@_FILE
def show_command(path: Path) -> None:
    """Check the whole savepoint file and print its description as JSON."""
    from elfmesh.api.savepoint import read_head

    print_json(msgspec.to_builtins(read_head(path)))


@savepoint_group.command("results")
@_FILE
@click.option("--from", "start", type=int, metavar="I", help="First interval. [default: the oldest]")
def results_command(path: Path, start: int | None) -> None:
    """Print the results in a savepoint as `elf results -o json` does, one JSON line per interval."""
    from elfmesh.api.savepoint import read_head, read_results

    read_head(path)
    for index, line in read_results(path):
        if start is None or index >= start:
            click.echo(line.decode())

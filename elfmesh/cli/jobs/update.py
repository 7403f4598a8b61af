"""The commands update, rollout, empty, revoke and delete, and the output of a change.

The module owns the difference of two texts on a terminal and the description of what a change does to the
state.
"""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import (
    api_option,
    file_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    read_envelopes,
    read_signatures,
    say,
    signature_option,
    text_of,
    within,
)
from elfmesh.cli.jobs.names import check_is_job
from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.jobs.signing import Envelope, text_digest
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.control.protocol.replies_changes import Applied, Deleted
from elfmesh.errors import DataError, QueryError, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.text import printable

APPLIED = ("job", "version", "effective_interval", "acknowledged", "expected", "state", "seconds")
MEANING = {
    "new": "new",
    "unchanged": "unchanged: this version is already running",
    "keep": "keep: the state is kept",
    "warm up": "warm up: open windows are recomputed from the logs; no record is lost",
    "reset": "reset: groups or windows start empty at the boundary",
}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_applied(answer: dict[str, Any], old: str | None, new: str) -> None:
    """Print what `apply` or `update` did, or would do."""
    if old is not None and old.strip() != new.strip():
        print_difference(old, new)
    done = read_reply(Applied, answer)
    meaning, seconds = MEANING.get(done.state, done.state), done.seconds or {}
    if done.state == "reset" and done.in_place is False:
        meaning = "reset: results and interval numbers restart"
    if done.reasons:
        meaning += f" ({', '.join(done.reasons)})"
    if done.dry_run:
        click.echo(f"{done.job} version {done.version} would be {meaning}")
    else:
        start = done.effective_interval
        begins = f"interval {start}" if start else "the beginning of their logs"
        click.echo(
            f"{done.job} version {done.version}: {meaning}; {done.acknowledged} of {done.expected} agents "
            f"have it, from {begins} on "
            f"(prepared in {seconds.get('prepare', 0):.3f} s, in force in {seconds.get('activate', 0):.3f} s)"
        )
    if done.columns:
        effects = (f"{printable(name)}: {effect}" for name, effect in done.columns.items())
        click.echo("    " + ", ".join(effects))
    for text in done.excluded or ():
        say(text)
    if done.hint:
        say(done.hint)
    elif not done.dry_run and done.acknowledged < done.expected:
        say("Not all agents have acknowledged yet; `elf rollout status` shows who is missing.")


def print_difference(old: str, new: str) -> None:
    """Print the unified difference of two texts, in colour on a terminal."""
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "running", "applied", lineterm="")
    for line in lines:
        colour = COLOURS.get(line[:1]) if colours else None
        click.echo(click.style(printable(line), fg=colour) if colour else printable(line))


@click.command("update")
@job_argument
@file_option
@signature_option
@click.option(
    "--canary",
    metavar="KEY=VALUE",
    help=("Run the new version as a canary, only on the agents with this label, beside the old version."),
)
@click.option("--dry-run", is_flag=True, help="Print what the command would do, and do nothing.")
@output_option
@api_option
def update_command(
    job: str,
    path: str,
    signature: str | None,
    canary: str | None,
    dry_run: bool,
    output: str,
    api: str | None,
) -> None:
    """Replace the query of JOB from an interval boundary on.

    The agents keep the state of the job where the new query allows it; --dry-run shows what is kept. The
    command changes nothing if another client changes the job at the same time.
    """
    client = Client(api)
    whole, source = read_text(path)
    text, signed = whole, ""
    for reported, envelope in read_signatures(path, signature).items():
        from elfmesh.ql import parse_many

        # The signature covers the statement, without the text around it in the file.
        found = [each.text for each in parse_many(text, source=source) if text_digest(each.text) == reported]
        if found:
            (text, *_), signed = found, envelope
    labels = None
    if canary is not None:
        key, equals, value = canary.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{canary!r} is not KEY=VALUE", where="--canary")
        labels = {key: value}
    running = client.describe(job)
    try:
        answer = client.update(
            job, text, running=running, canary=labels, dry_run=dry_run, source=source, signed=signed
        )
    except QueryError as error:
        raise within(error, whole, text, source) from None
    if output == "table":
        print_applied(answer, read_reply(Description, running).text, _bare(text))
    elif output == "json":
        print_json(answer)
    else:
        print_rows(output, APPLIED, [answer])


def _bare(text: str) -> str:
    lines = text.strip().removesuffix(";").splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        del lines[0]
    return "\n".join(lines)


@click.command("revoke")
@click.argument("path", metavar="FILE.sig")
@output_option
@api_option
def revoke_command(path: str, output: str, api: str | None) -> None:
    """Permanently revoke versions of a job with a tombstone that `elf sign --tombstone` wrote.

    Agents disable the Python functions of these versions and count their records as function_error, until
    a newer signed version is applied. A job without Python functions stops if the overlay requires signed
    manifests; delete it.
    """
    client = Client(api)
    answers = [client.revoke(each.reported.job, each.encode().decode()) for each in read_tombstones(path)]
    if output == "table":
        for done in (read_reply(Applied, answer) for answer in answers):
            click.echo(
                f"{printable(done.job)}: revoked; {done.acknowledged} of {done.expected} agents have stored"
                " it; the others get it when they return"
            )
    else:
        print_rows(output, APPLIED, answers)


@click.command("delete")
@job_argument
@click.option(
    "--signature",
    metavar="FILE",
    help=("Tombstone that `elf sign` wrote; required if the overlay requires signed manifests."),
)
@output_option
@api_option
def delete_command(job: str, signature: str | None, output: str, api: str | None) -> None:
    """Delete a job and its results."""
    client = Client(api)
    if signature is not None:
        name = "/".join(split_name(job))
        found = [each for each in read_tombstones(signature) if each.reported.job == name]
        if not found:
            raise DataError(f"the file contains no tombstone of {name}", where=signature)
        client.revoke(job, found[0].encode().decode())
    check_is_job(client, job)
    answer = client.delete(job)
    if output == "table":
        done = read_reply(Deleted, answer)
        of = f" ({done.acknowledged} of {done.expected} agents)" if done.expected else ""
        click.echo(f"{printable(done.job or job)}: {text_of(done.state)}{of}")
    else:
        print_rows(output, APPLIED, [answer])


def read_tombstones(path: str) -> list[Envelope]:
    """Return the tombstones of a signature file. Raises DataError if there are none."""
    ends = [each for each in read_envelopes(path) if each.reported.tombstone]
    if not ends:
        hint = "`elf sign --tombstone JOB` makes one."
        raise DataError("the file contains no tombstone", where=path, hint=hint)
    return ends


@click.group("rollout")
def rollout_group() -> None:
    """Show the progress of the last change of a job, undo it, or promote a canary."""


@rollout_group.command("status")
@job_argument
@output_option
@api_option
def status_command(job: str, output: str, api: str | None) -> None:
    """Show the active version of JOB, the agents that have it, and its results."""
    found = Client(api).rollout(job)
    if output == "json":
        print_json(found)
        return
    if output == "csv":
        print_rows("csv", ("job", "version", "effective_interval", "in_force", "halted"), [found])
        return
    for each in (found, *([found["canary"]] if "canary" in found else [])):
        for key, value in each.items():
            if key not in ("canary", "texts"):
                click.echo(f"{key}: {text_of(value) or '-'}")
        click.echo("")


def _change(group: click.Group | None, name: str, summary: str) -> click.Command:
    @click.command(name, help=summary)
    @job_argument
    @output_option
    @api_option
    def command(job: str, output: str, api: str | None) -> None:
        answer = getattr(Client(api), name)(job)
        done = read_reply(Applied, answer)
        if output != "table":
            print_rows(output, APPLIED, [answer])
        elif done.state == "deleted":
            click.echo(f"{printable(done.job)}: deleted")
        else:
            print_applied(answer, None, "")

    if group is not None:
        group.add_command(command)
    return command


_change(rollout_group, "undo", "End the canary of JOB. If there is none, restore the previous version.")
_change(rollout_group, "promote", "Make the canary of JOB the version of all agents.")
empty_command = _change(None, "empty", "Start a new batch on all agents at one interval boundary.")

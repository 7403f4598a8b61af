"""The commands apply, pause and resume, and the list of all commands that use the API of an agent.

The module owns the command lines. Errors are raised as the error tree; the `elf` group converts them to
messages and exit codes.
"""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import (
    api_option,
    creator_option,
    file_option,
    job_argument,
    output_option,
    print_json,
    print_rows,
    read_signatures,
    signature_option,
    text_of,
    with_caret,
    within,
)
from elfmesh.cli.host.health import health_command
from elfmesh.cli.host.leave import leave_command
from elfmesh.cli.jobs.listing import describe_command, get_command
from elfmesh.cli.jobs.names import note_unknown_streams
from elfmesh.cli.jobs.ok_to_stop import ok_to_stop_command
from elfmesh.cli.jobs.publish import publish_command
from elfmesh.cli.jobs.query import query_command
from elfmesh.cli.jobs.results import results_command
from elfmesh.cli.jobs.status import status_command
from elfmesh.cli.jobs.stream_query import cancel_command
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
from elfmesh.cli.jobs.wait import wait_command
from elfmesh.cli.jobs.what_if import what_if_command
from elfmesh.cli.jobs.why import why_command
from elfmesh.cli.local.job_layout import note_sites, note_standbys
from elfmesh.control.jobs.policy import LABEL_NAMES
from elfmesh.control.jobs.signing import text_digest
from elfmesh.control.member.required_label import label_refusal
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.control.protocol.replies_changes import Applied
from elfmesh.errors import DataError, QueryError, RuntimeFailure
from elfmesh.local.text_input import read_text
from elfmesh.text import printable


@click.command("apply")
@file_option
@signature_option
@click.option("--dry-run", is_flag=True, help="Print what the command would do, and do nothing.")
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse a job if no agent has its stream, or if PATHS has too few sites or two in one place.",
)
@click.option(
    "--require",
    type=click.Choice(LABEL_NAMES),
    help="Refuse a job whose output has a higher label (see elf blazes).",
)
@creator_option
@output_option
@api_option
def apply_command(
    path: str,
    signature: str | None,
    dry_run: bool,
    strict: bool,
    require: str | None,
    creator: str | None,
    output: str,
    api: str | None,
) -> None:
    """Submit the jobs in FILE, or update those that are already running."""
    client = Client(api)
    text, source = read_text(path)
    envelopes = read_signatures(path, signature)
    jobs = _statements(text, source)
    rule = {} if require is None else {"*": require}
    for job_text, name, *_ in jobs:
        if problem := label_refusal(rule, name, job_text, "--require"):
            raise RuntimeFailure(f"{name}: {problem}", where=source)
    for job_text, _, streams, _ in jobs:
        note_unknown_streams(client, streams, strict=strict)
        note_sites(client, job_text, source, strict=strict)
    for job in jobs:
        old = _text_of_job(client, job[1]) if output == "table" else None
        try:
            signed = envelopes.get(text_digest(job[0]), "")
            answer = client.apply(job[0], creator=creator, dry_run=dry_run, source=source, signed=signed)
        except QueryError as error:
            raise within(error, text, job[0], source) from None
        if output == "table":
            print_applied(answer, old, job[0])
            if job[3] and not dry_run:
                note_standbys(client, job[1])
        elif output == "json":
            print_json(answer)
        else:
            print_rows(output, APPLIED, [answer])


def _statements(text: str, source: str) -> list[tuple[str, str, list[str], bool]]:
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
        has_standbys = statement.job.standby_us is not None
        jobs.append((statement.text, statement.job.qualified, streams, has_standbys))
    return jobs


def _text_of_job(client: Client, job: str) -> str | None:
    try:
        return read_reply(Description, client.describe(job)).text
    except RuntimeFailure:
        return None


def _change(name: str, summary: str) -> click.Command:
    @click.command(name, help=summary)
    @job_argument
    @output_option
    @api_option
    def command(job: str, output: str, api: str | None) -> None:
        answer = getattr(Client(api), name)(job)
        if output == "table":
            done = read_reply(Applied, answer)
            of = f" ({done.acknowledged} of {done.expected} agents)" if done.expected else ""
            click.echo(f"{printable(done.job)}: {text_of(done.state)}{of}")
        else:
            print_rows(output, APPLIED, [answer])

    return command


pause_command = _change("pause", "Pause JOB. Agents stop reading for it, and its open intervals wait.")
resume_command = _change("resume", "Resume JOB. Agents continue reading where they stopped.")


def add_commands(group: click.Group) -> None:
    for command in (
        apply_command,
        status_command,
        wait_command,
        ok_to_stop_command,
        what_if_command,
        get_command,
        describe_command,
        results_command,
        query_command,
        cancel_command,
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

"""`elf query` over streams, and `elf cancel`: a question to the whole fleet that leaves no job behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.api.client.client import Client
from elfmesh.api.client.failures import failure_of
from elfmesh.cli.common import api_option, print_rows, print_table, say
from elfmesh.cli.jobs.names import NO_SUCH_JOB, stream_names
from elfmesh.errors import DataError, RuntimeFailure, UsageError
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.row_json import encode_json, iso_us
from elfmesh.text import printable, suggest
from elfmesh.units import format_duration

if TYPE_CHECKING:
    from elfmesh import ql
    from elfmesh.api.client.stream_query import QueryProgress, StreamQuery
else:
    ql = lazy_module("elfmesh.ql")

SHOWN = 3
"""Agents that the progress names."""


def range_clause(history_us: int | None, until_us: int | None) -> str:
    """Return HISTORY and UNTIL of the options."""
    history = "" if history_us is None else f"HISTORY '{format_duration(history_us)}' "
    return history + ("UNTIL HISTORY" if until_us is None else f"UNTIL '{format_duration(until_us)}'")


def times_clause(begin_us: int | None, end_us: int | None) -> str:
    """Return HISTORY and UNTIL of the records between two times; without a beginning, from 1970 on."""
    end = "UNTIL HISTORY" if end_us is None else f"UNTIL TIMESTAMP '{iso_us(end_us)}'"
    return f"HISTORY TIMESTAMP '{iso_us(begin_us or 0)}' {end}"


def ask_streams(
    client: Client,
    text: str,
    clause: str,
    *,
    source: str,
    wait_us: int | None,
    namespace: str,
    complete: bool,
    output: str,
    output_file: Path | None = None,
) -> None:
    """Run a query over streams and print its rows, or write them to a Parquet file.

    `wait_us`: how long to wait for further agents; None: 10 s beyond the predicted time.

    Raises:
        QueryError: the text is invalid.
        RuntimeFailure: an answer is not complete, and `complete` is set.
    """
    from elfmesh.api.client.stream_query import StreamQuery, wait_of
    from elfmesh.api.query_text import as_job

    as_job(text, "CREATE JOB adhoc.query", clause, source=source)  # its errors come before those of the fleet
    _check_streams(client, text, source)
    cost = client.cost(text, clause)
    wait_us = wait_of(cost) if wait_us is None else wait_us
    query = StreamQuery(client, text, clause, wait_us=wait_us, namespace=namespace, source=source, cost=cost)
    with query:
        query.submit()
        _wait(query)
        if output_file is not None:
            from elfmesh.cli.jobs.results_file import write_parquet

            write_parquet(client, query.job, output_file, (None, None), None, state="final")
    if output_file is None:
        _print(query, output)
    _summarise(query)
    if complete and query.completeness < 1.0:
        raise RuntimeFailure(f"the answer is not complete: {query.completeness:.3f}")


def _check_streams(client: Client, text: str, source: str) -> None:
    there = stream_names(client)
    for name in ql.parse(text, source=source).streams:
        if ql.job_read(name):
            hint = "Write JOIN LATEST namespace.job, or query the streams and the jobs apart."
            raise UsageError(f"{name} is a job; a query over streams reads streams", hint=hint)
        if name not in there:
            hint = suggest(name, there) or "`elf get streams` lists them."
            raise DataError(f"no agent has a stream {name}", hint=hint)


def _wait(query: StreamQuery) -> None:
    shows, shown = sys.stderr.isatty(), False
    try:
        while (progress := query.poll()) is not None:
            if shows:
                shown = True
                click.echo(f"\r\x1b[K{_progress_text(progress)}", nl=False, err=True)
    except RuntimeFailure as error:
        if NO_SUCH_JOB in error.message:
            raise RuntimeFailure(f"{query.job} was cancelled") from None
        raise
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _progress_text(progress: QueryProgress) -> str:
    waits, all_agents = progress.waits_for, progress.done + len(progress.waits_for)
    more = f" and {len(waits) - SHOWN} more" if len(waits) > SHOWN else ""
    names = f"; waiting for {', '.join(waits[:SHOWN])}{more}" if waits else ""
    return printable(f"{progress.done} of {all_agents} agents have read their logs{names}")


def _print(query: StreamQuery, output: str) -> None:
    if output == "json":
        for record in query.records:
            click.echo(encode_json(record).decode())
        return
    rows = [row for record in query.records for row in record["rows"]]
    columns = list(rows[0]) if rows else []
    if output != "table":
        print_rows(output, columns, rows)
    elif rows:
        print_table(columns, [[row[column] for column in columns] for row in rows])
    sys.stdout.flush()


def _summarise(query: StreamQuery) -> None:
    agents = max((record["agents"]["expected"] for record in query.records), default=0)
    inside = min((record["agents"]["in"] for record in query.records), default=0)
    if query.records:
        say(f"completeness {query.completeness:.3g}: {inside} of {agents} agents")
    else:
        say("no agent has records of this time")
    for record in query.records:
        if text := failure_of(record):
            say(text)
    for each in query.missing:
        say(f"missing: {each.agent}: {each.reason}")


@click.command("cancel")
@click.argument("query", metavar="ID")
@api_option
def cancel_command(query: str, api: str | None) -> None:
    """End the query ID of `elf get queries` on all agents."""
    client = Client(api)
    names = {str(row["job"]) for row in client.get("jobs") if row.get("leased")}
    wanted = query.replace(".", "/", 1) if "." in query else query
    found = [name for name in names if wanted in (name, name.partition("/")[2])]
    if len(found) != 1:
        what = "there is no query" if not found else "several namespaces have a query"
        raise RuntimeFailure(f"{what} {query}", hint="`elf get queries` lists them.")
    client.delete(found[0])
    click.echo(f"{printable(found[0])}: cancelled")

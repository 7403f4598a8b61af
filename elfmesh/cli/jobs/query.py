"""`elf query`: runs ELF-QL over results of jobs, or over streams of the fleet (`stream_query`).

The rows are written to standard output, and the intervals from which they come to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.api.client.client import Client
from elfmesh.api.client.failures import failure_of
from elfmesh.cli.common import api_option, print_rows, print_table, rows_output_option, say, with_caret
from elfmesh.cli.jobs.names import NO_SUCH_JOB, stream_names
from elfmesh.cli.jobs.stream_query import ask_streams, range_clause, times_clause
from elfmesh.cli.local.log_options import times_of
from elfmesh.errors import ConfigError, QueryError, RuntimeFailure, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.ql.values.row_json import encode_json, rows_to_json
from elfmesh.units import EPOCH, parse_duration_us, parse_time

if TYPE_CHECKING:
    from elfmesh.api.client.live import LiveAnswer


@click.command("query")
@click.argument("text", required=False)
@click.option(
    "-f", "--file", "path", metavar="FILE", help="Read the query from FILE; - reads standard input."
)
@click.option(
    "--min-fidelity", type=click.FloatRange(0, 1), metavar="X",
    help="Refuse results whose fidelity is below X, and list the missing agents.",
)  # fmt: skip
@click.option(
    "--wait",
    metavar="DURATION",
    help="How long to wait for a result with sufficient fidelity, or for further agents after the first one"
    " has read its logs. [default: 0 s for jobs; for streams 10 s beyond the time that `elf explain"
    " --cost` predicts]",
)
@click.option("--history", metavar="DURATION", help="Read the streams' records of this time until now.")
@click.option("--until", metavar="DURATION", help="Read new records of the streams as well, for this time.")
@click.option(
    "--from",
    "begin",
    metavar="T",
    help="Read records or results of this time or later: ISO 8601, in UTC without an offset, or how long ago"
    " it is.",
)
@click.option("--to", "end", metavar="T", help="Read records or results before this time. [default: now]")
@click.option("--complete", is_flag=True, help="Exit with 1 unless all agents are in the answer.")
@click.option(
    "--namespace",
    metavar="NAME",
    default="adhoc",
    show_default=True,
    help="Namespace of a query over streams.",
)
@click.option(
    "--at", metavar="TIME",
    help="Read from each job the interval that ends at TIME; with --wait, wait until it is closed.",
)  # fmt: skip
@click.option("--tentative", is_flag=True, help="Also use tentative results of open intervals.")
@rows_output_option
@api_option
def query_command(
    text: str | None,
    path: str | None,
    min_fidelity: float | None,
    wait: str | None,
    history: str | None,
    until: str | None,
    begin: str | None,
    end: str | None,
    complete: bool,
    namespace: str,
    at: str | None,
    tentative: bool,
    output: str,
    output_file: Path | None,
    api: str | None,
) -> None:
    """Run a query over the newest result of every job that it names: SELECT ... FROM shop.top.

    With --at, the result is that of the interval that ends at a time. All agents answer with the same rows.

    The columns are those of the job, and ts, interval_index, interval_start, interval_end, state, rev,
    completeness.

    With --history or --until, the query reads streams on all agents that have them, and leaves no job behind:
    elf query "SELECT status, count(*) AS n FROM access GROUP BY status" --history '10 min'

    With --from or --to, it reads the records of streams, or all results of jobs, of this time.

    Example: elf query "SELECT product, hits FROM shop.top ORDER BY hits DESC" -o parquet --output top.parquet
    """
    if (text is None) == (path is None):
        raise UsageError("no query" if text is None else "two queries", hint="Give a query or -f FILE.")
    source = "query"
    if path is not None:
        text, source = read_text(path)
    assert text is not None
    client = Client(api)
    wait_us = _duration("--wait", wait)
    history_us, until_us = _duration("--history", history), _duration("--until", until)
    times = times_of({"begin": begin, "end": end})
    dated, lasting = begin is not None or end is not None, history_us is not None or until_us is not None
    if dated and lasting:
        raise UsageError("--from and --to exclude --history and --until")
    over_streams = lasting or (dated and _reads_streams(client, text, source))
    one_result = {"--min-fidelity": min_fidelity, "--tentative": tentative or None, "--at": at}
    _check_options(
        one_result, over_streams=over_streams, dated=dated, waits=wait_us is not None, complete=complete
    )
    try:
        if over_streams:
            clause = times_clause(*times) if dated else range_clause(history_us, until_us)
            ask_streams(
                client, text, clause, source=source,
                wait_us=wait_us, namespace=namespace,
                complete=complete, output=output, output_file=output_file,
            )  # fmt: skip
        elif dated:
            begin_at, end_at = map(_datetime, times)
            answer = client.query(text, begin=begin_at, end=end_at, source=source)
            _show_range(answer, output, output_file)
        else:
            ask_jobs(
                client, text, output, output_file, source=source, min_fidelity=min_fidelity,
                wait_s=(wait_us or 0) / 1e6, tentative=tentative,
                at=None if at is None else parse_time(at, datetime.now(UTC), "--at"),
            )  # fmt: skip
    except QueryError as error:
        raise with_caret(error, text) from None


def _check_options(
    one_result: Mapping[str, Any], *, over_streams: bool, dated: bool, waits: bool, complete: bool
) -> None:
    """Raise UsageError for options that exclude each other; `one_result`: those for one result of a job."""
    given = any(value is not None for value in one_result.values())
    if dated and not over_streams and (given or waits):
        raise UsageError(f"--wait, {', '.join(one_result)} are for one result of each job")
    if over_streams and given:
        raise UsageError(f"{', '.join(one_result)} are for results of jobs", hint="Use --complete.")
    if complete and not over_streams:
        raise UsageError("--complete is for queries over streams", hint="Use --min-fidelity 1.")


def ask_jobs(client: Client, text: str, output: str, output_file: Path | None, **options: Any) -> None:
    """Run a query over results of jobs and print its rows, or write them to a Parquet file.

    `options` are those of `Client.query`, which also has the errors.
    """
    try:
        answer = client.query(text, **options)
    except RuntimeFailure as error:
        raise _meant(error, client, text) from None
    _show(answer, output, output_file)


def _reads_streams(client: Client, text: str, source: str) -> bool:
    from elfmesh.ql import job_read, parse

    names = [name for name in parse(text, source=source).streams if not job_read(name)]
    return bool(names) and not set(names).isdisjoint(stream_names(client))


def _datetime(us: int | None) -> datetime | None:
    return None if us is None else EPOCH + timedelta(microseconds=us)


def _show_range(answer: LiveAnswer, output: str, output_file: Path | None) -> None:
    """Print the rows of many records, and one line for the records of each job."""
    _print(answer, output, output_file)
    _say_failed(answer)
    if output != "table" or output_file is not None:
        return
    for job in dict.fromkeys(each["job"] for each in answer.of):
        found = [each for each in answer.of if each["job"] == job]
        first, last = found[0]["interval"], found[-1]["interval"]
        least = min(each["completeness"] for each in found)
        count = f"{len(found)} interval{'' if len(found) == 1 else 's'}"
        say(f"{job}: {count}, {first['start']} .. {last['end']}, completeness at least {least:g}")


def _show(answer: LiveAnswer, output: str, output_file: Path | None) -> None:
    _print(answer, output, output_file)
    _say_failed(answer)
    if output != "table" or output_file is not None:
        return
    for each in answer.of:
        interval, agents = each["interval"], each["agents"]
        say(
            f"{each['job']}: interval {interval['index']}, {interval['start']} .. {interval['end']}, "
            f"{each['state']}, {agents['in']} of {agents['expected']} agents"
        )


def _say_failed(answer: LiveAnswer) -> None:
    for each in answer.failed:
        say(failure_of(each, each["job"]))


def _print(answer: LiveAnswer, output: str, output_file: Path | None) -> None:
    if output_file is not None:
        from elfmesh.local.parquet_file import parquet_file

        with parquet_file(output_file) as found:
            found.write(answer.table)
        return
    rows = rows_to_json(answer.table)
    if output == "json":
        click.echo(encode_json({"of": answer.of, "rows": rows}).decode())
        return
    columns = answer.table.column_names
    cells = [[row[column] for column in columns] for row in rows]
    if output != "table":
        print_rows(output, columns, rows)
        return
    print_table(columns, cells, cut=True)
    sys.stdout.flush()


def _duration(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration_us(text)
    except ConfigError as error:
        raise UsageError(error.message, where=option, hint=error.hint) from None


def _meant(error: RuntimeFailure, client: Client, text: str) -> RuntimeFailure:
    from elfmesh.ql import parse

    if NO_SUCH_JOB not in error.message:
        return error
    streams = stream_names(client)
    for name in parse(text).streams:
        if name in streams:
            hint = "Add --history '10 min' to read the records of a stream; `elf tap` shows its lines."
            return RuntimeFailure(f"{name} is a stream, not a job", hint=hint)
    return error

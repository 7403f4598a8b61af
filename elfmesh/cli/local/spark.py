"""`elf spark run`: runs ELF-QL over historical logs on Spark, with the output of `elf run`.

The module owns the command line and the choice of the session. Rows are written to standard output,
everything else to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import rows_output_option
from elfmesh.cli.local.log_options import lookup_option, stream_option
from elfmesh.errors import ConfigError, QueryError, UsageError
from elfmesh.local.text_input import read_text

if TYPE_CHECKING:
    from elfmesh.spark_bridge.history.inputs import HistoryInput

EXAMPLE = """elf spark run "SELECT status, count(*) FROM log GROUP BY status" --stream log=access.log"""


def spark_options(command: Any) -> Any:
    for option in reversed(
        (
            stream_option(
                "Historical data of a stream: log files, a directory, format=parquet, or "
                "NAME=HOST:PORT,format=elf"
            ),
            lookup_option,
            click.option("--python", is_flag=True, help="Run the Python functions of the query."),
            click.option(
                "--master",
                metavar="URL",
                help=("Spark master: local[4], spark://HOST:PORT, yarn, or sc://HOST:PORT (Spark Connect)."),
            ),
        )
    ):
        command = option(command)
    return command


@click.group("spark", short_help="Run ELF-QL over historical logs on Spark.")
def spark_group() -> None:
    """Run ELF-QL over historical logs on Spark: locally, on a cluster, or with Spark Connect."""


@spark_group.command("run", short_help="Run a query or a job file over historical logs.")
@click.argument("query", required=False)
@click.option(
    "-f",
    "--file",
    "job_file",
    metavar="FILE",
    help="Read the query or the jobs from FILE; - reads standard input.",
)
@spark_options
@rows_output_option
def run_command(
    query: str | None,
    job_file: str | None,
    streams: tuple[str, ...],
    lookups: tuple[str, ...],
    python: bool,
    master: str | None,
    output: str,
    output_file: Path | None,
) -> None:
    """Run QUERY over historical logs on Spark, and print the rows that `elf run` prints."""
    from elfmesh.cli.local.run import whole_answer
    from elfmesh.local.run_output import writer

    if (query is None) == (job_file is None):
        raise UsageError("give either a query or -f FILE", hint=EXAMPLE)
    text, source = read_text(job_file) if job_file is not None else (str(query), "query")
    try:
        inputs, tables = named_inputs(streams, "--stream"), named_inputs(lookups, "--lookup")
        with whole_answer(output_file) as file:
            for number, (statement, answers) in enumerate(
                answered(text, source, inputs, tables, python=python, master=master)
            ):
                if number and file is not None:
                    raise UsageError("a Parquet file has the rows of one answer, and there are several jobs")
                if number and output not in ("json", "jsonl"):
                    click.echo()
                out = writer(output, sys.stdout, statement, bold=False, file=file)
                for answer in answers:
                    out.interval(answer)
                out.end(None)
                sys.stdout.flush()
    except QueryError as error:
        from elfmesh.cli.common import with_caret

        raise with_caret(error, text) from None


def answered(
    text: str,
    source: str,
    inputs: Mapping[str, HistoryInput],
    tables: Mapping[str, HistoryInput],
    *,
    python: bool = False,
    master: str | None = None,
    only: tuple[int, int] | None = None,
) -> Any:
    """Yield each statement of a text with its intervals. The text is parsed before Spark starts."""
    from elfmesh.ingest.lookups import LookupTables
    from elfmesh.spark_bridge.history.sql import check_text, histories
    from elfmesh.spark_bridge.session import any_session

    check_text(text, source, inputs)
    lookups = LookupTables({name: each.config for name, each in tables.items()})
    with any_session(master) as spark:
        for history in histories(
            spark, text, inputs, lookups=lookups, python=python, source=source, only=only
        ):
            yield history.statement, history.answers()
            history.close()


def named_inputs(given: Sequence[str], option: str) -> dict[str, HistoryInput]:
    from elfmesh.ingest.stream_settings import parse_stream
    from elfmesh.spark_bridge.history.inputs import given_inputs

    settings = {}
    for text in given:
        name, found = parse_stream(text, option)
        if name in settings:
            raise UsageError(f"{option}: {name} is given twice", hint="The path may be a pattern.")
        settings[name] = found
    try:
        return given_inputs(settings, option)
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from None

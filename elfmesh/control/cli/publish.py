"""`elf publish`: a file as a new version of a table that running jobs join."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from elfmesh.control.cli.common import api_option, output_option, print_json, say
from elfmesh.control.client import Client
from elfmesh.control.publish import publish_table
from elfmesh.errors import DataError, RuntimeFailure

READERS = {".csv": pacsv.read_csv, ".parquet": pq.read_table, ".ndjson": pajson.read_json}
READERS |= {".json": pajson.read_json, ".jsonl": pajson.read_json}


@click.command("publish")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="Of the table: `lookup.NAME` in the jobs' queries.")
@click.option("--job", "jobs", multiple=True, help="Only these; default: all that declare the table.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@output_option
@api_option
def publish_command(
    file: Path, name: str, jobs: tuple[str, ...], dry_run: bool, output: str, api: str | None
) -> None:
    """Give jobs that declare TABLE NAME(...) the rows of FILE: .csv, .parquet, or JSON lines.

    Each job's next version has them, from one boundary on, on all its agents; `elf rollout undo` takes them
    back.
    """
    for said in publish_table(read_file(file), name, client=Client(api), jobs=jobs, dry_run=dry_run):
        if output == "json":
            print_json(said)
        else:
            since = said.get("effective_interval")
            when = "" if since is None else f", from interval {since} on"
            say(f"{said['job']}: {said['rows']} rows, {said['bytes']} bytes, {said['digest']}{when}")


def read_file(path: Path) -> pa.Table:
    """The rows of a file.

    Raises:
        RuntimeFailure: it cannot be opened.
        DataError: it cannot be read.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError("is no table", where=str(path), hint=f"One of {', '.join(READERS)}.")
    try:
        return reader(str(path))
    except pa.ArrowException as error:
        raise DataError(f"cannot be read: {str(error).splitlines()[0]}", where=str(path)) from None
    except OSError as error:
        raise RuntimeFailure(f"cannot open it: {error.strerror or error}", where=str(path)) from None

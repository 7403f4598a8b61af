"""`elf publish`: publishes a file as a new version of a table that running jobs join."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, output_option, print_json, say
from elfmesh.errors import DataError, RuntimeFailure

if TYPE_CHECKING:
    import pyarrow as pa

READERS = {
    ".csv": ("pyarrow.csv", "read_csv"),
    ".parquet": ("pyarrow.parquet", "read_table"),
    ".ndjson": ("pyarrow.json", "read_json"),
    ".json": ("pyarrow.json", "read_json"),
    ".jsonl": ("pyarrow.json", "read_json"),
}
"""Module and function that read a file, by suffix. The module is imported when the command needs it."""


@click.command("publish")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="Name of the table; queries join it as lookup.NAME.")
@click.option(
    "--job",
    "jobs",
    multiple=True,
    help=("Publish to this job only; repeatable. [default: all jobs that declare the table]"),
)
@click.option("--dry-run", is_flag=True, help="Print what the command would do, and do nothing.")
@output_option
@api_option
def publish_command(
    file: Path, name: str, jobs: tuple[str, ...], dry_run: bool, output: str, api: str | None
) -> None:
    """Publish the rows of FILE (.csv, .parquet or JSON lines) to the jobs that declare TABLE NAME(...).

    Each job gets a new version with these rows, which all its agents use from one interval boundary on.
    `elf rollout undo` restores the previous rows.
    """
    from elfmesh.api.publish import publish_table

    for reply in publish_table(read_file(file), name, client=Client(api), jobs=jobs, dry_run=dry_run):
        if output == "json":
            print_json(reply)
        else:
            since = reply.get("effective_interval")
            when = "" if since is None else f", from interval {since} on"
            say(f"{reply['job']}: {reply['rows']} rows, {reply['bytes']} bytes, {reply['digest']}{when}")


def read_file(path: Path) -> pa.Table:
    """Read a file as a table.

    Raises:
        RuntimeFailure: the file cannot be opened.
        DataError: the suffix is unknown, or the content cannot be read.
    """
    import pyarrow as pa

    found = READERS.get(path.suffix.lower())
    if found is None:
        raise DataError("is not a table", where=str(path), hint=f"One of {', '.join(READERS)}.")
    reader = getattr(importlib.import_module(found[0]), found[1])
    try:
        return reader(str(path))
    except pa.ArrowException as error:
        raise DataError(f"cannot be read: {str(error).splitlines()[0]}", where=str(path)) from None
    except OSError as error:
        raise RuntimeFailure(f"cannot open it: {error.strerror or error}", where=str(path)) from None

"""`elf compact`: merges the small files of a Parquet sink into large ones, day by day."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.compact import compact
from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.ql.values.row_json import encode_json


@click.command("compact")
@click.argument("path", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--job", default="*", metavar="NS/NAME", help="Compact only the results of this job.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="Compact only the days before this one.")
@click.option("--dry-run", is_flag=True, help="Print what the command would do, and do nothing.")
@click.option(
    "--staging",
    type=click.Path(path_type=Path, file_okay=False),
    help=(
        "Directory for new files: outside PATH and on the same file system. [default: "
        ".NAME.compact beside PATH]"
    ),
)
def compact_command(
    path: Path, job: str, before: datetime | None, dry_run: bool, staging: Path | None
) -> None:
    """Compact the results in PATH, the directory of a Parquet sink. The sink may be running.

    The command merges the files of each day except the newest into one file (at most 128 MB of rows).
    Readers see either the old files or the new file. Files whose columns or types differ from those of
    the other files of the day stay unchanged. The command prints one JSON line per day. It skips a day
    that has a damaged file, and the exit code is then 65.
    """
    until, problems = None if before is None else before.date(), []
    try:
        for done in compact(path, job=job, before=until, dry_run=dry_run, staging=staging):
            reported = asdict(done)
            if done.problem:
                problems.append(f"{done.directory}, {done.day}: {done.problem}")
            else:
                del reported["problem"]
            click.echo(encode_json(reported).decode())
    except (OSError, Unavailable) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RuntimeFailure(reason, where=str(path)) from None
    if problems:
        raise DataError(f"{len(problems)} days were not compacted: {problems[0]}", where=str(path))

"""`elf compact`: the small files of old days of a Parquet sink become few large ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.compact import compact
from elfmesh.control.jobs.records import encode_json
from elfmesh.errors import DataError, RuntimeFailure


@click.command("compact")
@click.argument("path", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--job", default="*", metavar="NS/NAME", help="Only this job's results.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="Only days before this one.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--staging",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where new files are made: outside of PATH, on its file system. [default: .NAME.compact beside it]",
)
def compact_command(
    path: Path, job: str, before: datetime | None, dry_run: bool, staging: Path | None
) -> None:
    """Compact the results in PATH, the directory of a parquet sink; the sink may be running.

    The files of each day before the newest become one file (of 128 MB of rows at most), in one step for
    readers: they see the old files or the new one, never both. Files with other columns or types than their
    neighbours stay as they are. Prints a JSON line per day; a day with a damaged file stays as it is, and the
    exit code is 65 then.
    """
    until, problems = None if before is None else before.date(), []
    try:
        for done in compact(path, job=job, before=until, dry_run=dry_run, staging=staging):
            said = asdict(done)
            if done.problem:
                problems.append(f"{done.directory}, {done.day}: {done.problem}")
            else:
                del said["problem"]
            click.echo(encode_json(said).decode())
    except (OSError, Unavailable) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RuntimeFailure(reason, where=str(path)) from None
    if problems:
        raise DataError(f"{len(problems)} days stay as they are: {problems[0]}", where=str(path))

"""`elf compact`: the small files of old days of a Parquet sink become few large ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from elfmesh.agent.sinks.base import Unavailable
from elfmesh.agent.sinks.compact import compact
from elfmesh.control.results.records import encode_json
from elfmesh.errors import RuntimeFailure


@click.command("compact")
@click.argument("path", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--job", default="*", metavar="NS/NAME", help="Only this job's results.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="Only days before this one.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def compact_command(path: Path, job: str, before: datetime | None, dry_run: bool) -> None:
    """Compact the results in PATH, the directory of a parquet sink; the sink may be running.

    Each day before the newest becomes one file (of 128 MB of rows at most), in one step for who reads: the
    old files or the new one, never both. Prints a JSON line per day.
    """
    try:
        for done in compact(path, job=job, before=None if before is None else before.date(), dry_run=dry_run):
            click.echo(encode_json(asdict(done)).decode())
    except (OSError, Unavailable) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RuntimeFailure(reason, where=str(path)) from None

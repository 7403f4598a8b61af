"""`elf backup` and `elf restore`: back up a data directory to a file, and create one from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from elfmesh.cli.common import say
from elfmesh.ingest.host import wall_clock_us


@click.command("backup")
@click.argument("data_dir", type=click.Path(path_type=Path))
@click.option("-o", "--output", "target", required=True, metavar="FILE", type=click.Path(path_type=Path))
def backup_command(data_dir: Path, target: Path) -> None:
    """Back up DATA_DIR to FILE. Its agent may be running.

    The backup contains results, serials, epochs, deleted jobs, the audit log, dead letters and
    undelivered sink messages. It does not contain the agent's id, votes, contributions, spools, keys or
    tokens.
    """
    from elfmesh.agent.data_directory.backup import backup

    head, count = backup(data_dir, target, wall_clock_us())
    say(f"{target}: {count} files of agent {head.agent}")
    left = ", ".join(f"{name} ({size} bytes)" for name, size in head.left_out.items())
    say(f"not included: {head.votes} votes, {head.contributions} contributions that are not closed; {left}")


@click.command("restore")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("data_dir", type=click.Path(path_type=Path))
def restore_command(source: Path, data_dir: Path) -> None:
    """Create DATA_DIR from a backup. DATA_DIR must be empty or missing.

    The agent that starts in DATA_DIR gets a new id.
    """
    from elfmesh.agent.data_directory.restore import restore

    head, count = restore(source, data_dir)
    say(f"{data_dir}: {count} files of agent {head.agent}; an agent that starts here gets a new id")
    say(f"not restored: {head.votes} votes, {head.contributions} contributions that were not closed")

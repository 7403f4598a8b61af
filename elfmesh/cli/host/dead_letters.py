"""`elf dead-letters`: prints what an agent sealed for intervals that had been closed without it."""

from __future__ import annotations

from pathlib import Path

import click

from elfmesh.agent.data_directory.dead_letter_rows import letters
from elfmesh.errors import RuntimeFailure
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.deadletters import SUFFIX


@click.command("dead-letters")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
def dead_letters_command(paths: tuple[Path, ...]) -> None:
    """Print dead letters as JSON, one line per interval: its counts and its rows.

    A dead letter contains what one agent sealed for an interval that had been closed without it. PATHS
    are files or directories: DATA_DIR/dead-letter, or the subdirectory of one job. The command does not
    change them; remove them when you no longer need them.
    """
    files: dict[str, bytes] = {}
    for path in paths:
        found = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        for each in found:
            try:
                files[str(each)] = each.read_bytes()
            except OSError as error:
                raise RuntimeFailure(
                    f"cannot read it: {error.strerror}", where=str(each), hint="Check the path."
                ) from None
    for letter in letters(files):
        click.echo(encode_json(letter).decode())

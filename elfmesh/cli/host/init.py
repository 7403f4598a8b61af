"""`elf init`: writes an agent.toml for the logs that it finds on a host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.cli.common import say
from elfmesh.errors import RuntimeFailure, UsageError

if TYPE_CHECKING:
    from elfmesh.cli.host.found_logs import FoundLogs

SHOWN = 20
"""Number of files that are not read which the configuration lists in comments."""


@click.command("init")
@click.argument("places", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "target", metavar="FILE", type=click.Path(path_type=Path),
    help="Write the configuration to FILE. [default: standard output]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="With -o: print the configuration, and write nothing.")
@click.option("--force", is_flag=True, help="With -o: replace FILE if it exists.")
def init_command(places: tuple[Path, ...], target: Path | None, dry_run: bool, force: bool) -> None:
    """Print an agent.toml for the logs that are found at PATH, directories or files.

    The default is /var/log. Each file whose format is recognised becomes a stream, and many files of one
    directory and format become one. The command lists on standard error the files that the agent would read,
    those that this user may not read, and those that it leaves out. Run it as the user of the agent.

    Example: elf init -o /etc/elf/agent.toml && elf doctor -c /etc/elf/agent.toml
    """
    from elfmesh.cli.host.found_logs import find_logs

    given = places or (Path("/var/log"),)
    if missing := [str(place) for place in given if not place.exists()]:
        raise UsageError(f"{missing[0]}: no such file or directory", hint="Check the path.")
    writes = target is not None and not dry_run
    if writes and not force and target is not None and target.exists():
        raise RuntimeFailure(f"{target} exists", hint="--force replaces it.")
    found = find_logs([place.absolute() for place in given])
    _say_found(found)
    text = "".join(f"{line}\n" for line in configuration(found))
    if writes and target is not None:
        _write(target, text)
        say(f"{target} is written; `elf validate {target}` checks it.")
    else:
        click.echo(text, nl=False)


def configuration(found: FoundLogs) -> Iterator[str]:
    """Yield the lines of the configuration."""
    yield "# Written by `elf init`. `elf validate FILE` checks it, `elf schema` lists all keys."
    if os.geteuid() == 0:
        yield 'data_dir = "/var/lib/elf"'
    yield 'listen = "127.0.0.1:7400"  # another address needs certificates, see `elf ca`'
    yield 'api = "127.0.0.1:7401"'
    for stream in found.streams:
        yield ""
        yield f"[streams.{stream.name}]"
        yield f"path = {toml_text(stream.path)}"
        yield f"format = {toml_text(stream.format)}"
    for title, files in (("may not be read by this user", found.closed), ("left out", found.unclear)):
        if files:
            yield ""
            yield f"# {title}:"
            yield from (f"# {toml_text(path)}: {why}" for path, why in files[:SHOWN])
            if len(files) > SHOWN:
                yield f"# and {len(files) - SHOWN} more"


def toml_text(text: str) -> str:
    """Return a text as a basic string of TOML, on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _say_found(found: FoundLogs) -> None:
    for stream in found.streams:
        files = f" ({stream.files} files)" if stream.files > 1 else ""
        say(f"read: {stream.path}{files} as stream {stream.name}, format {stream.format}")
    for path, owner in found.closed:
        say(f"no permission: {path} ({owner})")
    for path, why in found.unclear:
        say(f"left out: {path}: {why}")
    if found.closed:
        say("Run the command as the user of the agent, and add this user to the group of the files.")
    if not found.streams:
        say("No log was found; name directories or files: elf init PATH...")


def _write(target: Path, text: str) -> None:
    from elfmesh.storage.whole import whole_file

    try:
        with whole_file(target) as file:
            file.write(text.encode())
    except OSError as error:
        raise RuntimeFailure(f"{target}: {error.strerror or error}") from None

"""`elf audit`: shows and verifies the audit log of an agent. Needs no running agent."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from elfmesh.cli.common import output_option, print_rows, say
from elfmesh.errors import DataError, RuntimeFailure
from elfmesh.ingest.authority.audit_chain import AuditEntry, files_of, read_entries, verify

COLUMNS = ("seq", "time", "who", "source", "what", "allowed", "job", "version", "digest", "why")


@click.group("audit")
def audit_group() -> None:
    """Show or verify the audit log in the data directory of an agent."""


@audit_group.command("verify")
@click.argument("place", metavar="FILE|DIR", type=click.Path(path_type=Path))
def verify_command(place: Path) -> None:
    """Check that no entry of the audit log was changed, moved or removed."""
    try:
        first, last, newest = verify(place)
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=str(place)) from None
    click.echo(f"lines {first} to {last} are intact; the newest hash is {newest}")
    if first > 1:
        say(f"Lines before {first} are in files that were removed.")


@audit_group.command("show")
@click.argument("place", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option("--refused", is_flag=True, help="Show only refused requests.")
@click.option("--job", metavar="NAMESPACE/NAME", help="Show only entries about this job.")
@output_option
def show_command(place: Path, refused: bool, job: str | None, output: str) -> None:
    """Print the entries, oldest first, without checking them; use `verify` for that."""
    try:
        found = [entry for path in files_of(place) for _, entry in read_entries(path)]
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=str(place)) from None
    wanted = [each for each in found if not (refused and each.allowed) and job in (None, each.job)]
    if not found:
        raise DataError("has no lines", where=str(place))
    print_rows(output, COLUMNS, [_row(each) for each in wanted])


def _row(entry: AuditEntry) -> dict[str, object]:
    time = datetime.datetime.fromtimestamp(entry.at / 1e6, datetime.UTC)
    row: dict[str, object] = {name: getattr(entry, name, None) for name in COLUMNS}
    row |= {"time": f"{time:%Y-%m-%dT%H:%M:%S.%f}Z", "version": entry.version or None}
    return row | {"what": entry.what if entry.count == 1 else f"{entry.what}, {entry.count} times"}

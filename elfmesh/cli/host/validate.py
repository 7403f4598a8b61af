"""`elf validate` and `elf schema`: command lines of `validation` and `config_schema`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.cli.host.validation import Problem


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="Output format; json prints one object per file.",
)  # fmt: skip
def validate_command(files: tuple[str, ...], output: str) -> int:
    """Check job files (ELF-QL) and configuration files (agent.toml) without running them.

    The command prints every fault with its file, line, column and remedy. Exit codes: 65 if a job is
    wrong, 78 if a configuration is wrong, 1 if a file cannot be read.
    """
    from elfmesh.cli import entry as cli
    from elfmesh.cli.host.validation import validate

    codes = set()
    for checked in validate(files):
        codes |= {problem.exit_code for problem in checked.problems}
        if output == "json":
            found: dict[str, object] = {"file": checked.file, "kind": checked.kind or None}
            found |= {"valid": not checked.problems}
            found |= {"problems": _objects(checked.problems), "warnings": _objects(checked.warnings)}
            click.echo(json.dumps(found, ensure_ascii=False))
            continue
        for problem in checked.problems:
            click.echo("\n".join(map(printable, str(problem).splitlines())), err=True)
        for warning in checked.warnings if cli.verbosity >= 0 else ():
            click.echo("\n".join(map(printable, f"warning: {warning}".splitlines())), err=True)
        if not checked.problems and cli.verbosity >= 0:
            click.echo(f"{printable(checked.file)}: {checked.kind}, {checked.holds}: valid")
    return max(codes, default=0)


def _objects(problems: tuple[Problem, ...]) -> list[dict[str, object]]:
    return [
        {"line": each.line or None, "column": each.column or None, "message": each.message,
         "hint": each.hint or None}
        for each in problems
    ]  # fmt: skip


@click.command("schema")
def schema_command() -> None:
    """Print the JSON schema of agent.toml, for editors and external checks."""
    from elfmesh.cli.host.config_schema import config_schema

    click.echo(json.dumps(config_schema(), indent=2, ensure_ascii=False))

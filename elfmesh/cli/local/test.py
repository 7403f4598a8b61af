"""`elf test`: runs the test cases in job files and shows differences."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from elfmesh.errors import UsageError
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.local.job_tests import CaseResult

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("test")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="Output format; json prints one object per case.",
)  # fmt: skip
@click.option(
    "--python", is_flag=True,
    help=(
        "Run the Python functions of the jobs in separate processes. Use this only with jobs "
        "that you trust."
),
)  # fmt: skip
def test_command(paths: tuple[str, ...], output: str, python: bool) -> int:
    """Run the --@test cases of job files. Directories are searched for *.elfql.

    A case is a line before its statement: --@test input=clicks.ndjson expect=top10.json [format=json].
    The exit code is 1 if a case fails, and 2 if there is no case.
    """
    from elfmesh.cli import entry as cli
    from elfmesh.local.job_tests import job_files, run_tests

    counts = {True: 0, False: 0}
    for path in job_files(paths):
        for outcome in run_tests(path, python=python):
            counts[outcome.passed] += 1
            if output == "json":
                click.echo(json.dumps(_object(outcome), ensure_ascii=False))
            elif not outcome.passed or cli.verbosity >= 0:
                _show(outcome)
    if not any(counts.values()):
        hint = "Write --@test input=FILE expect=FILE on the line before a statement."
        raise UsageError(f"there is no test case in {', '.join(paths)}", hint=hint)
    if output == "table" and cli.verbosity >= 0:
        click.echo(f"{counts[True]} passed, {counts[False]} failed", err=True)
    return 1 if counts[False] else 0


def _object(outcome: CaseResult) -> dict[str, object]:
    return {
        "file": outcome.file,
        "line": outcome.line or None,
        "name": outcome.name or None,
        "passed": outcome.passed,
        "problem": outcome.problem or None,
        "difference": list(outcome.difference),
    }


def _show(outcome: CaseResult) -> None:
    place = f"{outcome.file}:{outcome.line}" if outcome.line else outcome.file
    click.echo(printable(f"{'ok  ' if outcome.passed else 'FAIL'} {place} {outcome.name}".rstrip()))
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in (*outcome.problem.splitlines(), *outcome.difference):
        colour = COLOURS.get(line[:1]) if colours and outcome.difference else None
        click.echo("    " + (click.style(printable(line), fg=colour) if colour else printable(line)))

"""`elf lint`: finds what makes outputs differ, for editors, reviews and CI."""

from __future__ import annotations

import json
from functools import partial

import click

from elfmesh.cli.local.blazes import python_option, trial_of
from elfmesh.text import printable

EXIT_FOUND = 1


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "sarif", "github")), default="text",
    show_default=True, help="Output format; json prints one object per finding.",
)  # fmt: skip
@click.option(
    "--level", type=click.Choice(("info", "warning", "error")), default="warning", show_default=True,
    help="Exit with 1 if a finding has this level or a higher one.",
)  # fmt: skip
@python_option
@click.option(
    "--sample",
    metavar="LOG",
    help="Log whose records must fit the dependencies of annotation files and the ASSUME of jobs.",
)
def lint_command(paths: tuple[str, ...], output: str, level: str, python: bool, sample: str | None) -> int:
    """Find what makes outputs differ between runs, readers or replicas, without running them.

    PATH is an ELF-QL file, a program (Python), agent.toml (its sinks), an annotation file (YAML or JSON), or
    a directory of texts and programs. The comment `-- elf: allow B010 because REASON` on the line before
    allows a finding.
    """
    from elfmesh.api import coordination
    from elfmesh.control.coordination import reports
    from elfmesh.control.coordination.findings import LEVELS

    contradicts = exceeds = None
    if sample is not None:
        from elfmesh.local.contradictions import contradiction, excess

        contradicts, exceeds = partial(contradiction, sample), partial(excess, sample)
    found = coordination.lint(*paths, trial=trial_of(python), contradicts=contradicts, exceeds=exceeds)
    if output == "sarif":
        click.echo(json.dumps(reports.sarif(found), ensure_ascii=False))
    elif output == "json":
        for each in found:
            click.echo(json.dumps(reports.values(each), ensure_ascii=False))
    else:
        for line in reports.github(found) if output == "github" else reports.lines(found):
            click.echo(printable(line))
    return EXIT_FOUND if any(each.level >= LEVELS[level] and not each.allowed for each in found) else 0

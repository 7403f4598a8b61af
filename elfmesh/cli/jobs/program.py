"""`elf program run`: runs a user's program beside an agent.

The module finds the subclass of `elfmesh.Job` in a file. The program runs in this process with the rights of
this user; the agent runs no code of the program.
"""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import click

from elfmesh.api.client.job import Job
from elfmesh.cli.common import api_option
from elfmesh.errors import UsageError


@click.group("program")
def program_group() -> None:
    """Run programs beside agents, for tasks that SQL cannot express (docs/programs.md)."""


@program_group.command("run")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option(
    "--class",
    "name",
    metavar="NAME",
    help="Class to run, if the file defines several subclasses of elfmesh.Job.",
)
@api_option
def run_command(file: str, name: str | None, api: str | None) -> None:
    """Run the elfmesh.Job in FILE beside the agent at --api, until SIGTERM or Ctrl-C."""
    find_job(Path(file), name)(api).run()


def find_job(file: Path, name: str | None) -> type[Job]:
    """Return the subclass of `elfmesh.Job` that a file defines.

    Raises:
        UsageError: the file defines no class of this name, no class at all, or several.
    """
    found = {
        key: value
        for key, value in runpy.run_path(str(file), run_name="__elf_program__").items()
        if inspect.isclass(value) and issubclass(value, Job) and value.__module__ == "__elf_program__"
    }
    if name is not None and name in found:
        return found[name]
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    known = ", ".join(sorted(found)) or "none"
    raise UsageError(
        f"defines no elfmesh.Job {name}" if name is not None else "does not define exactly one elfmesh.Job",
        where=str(file),
        hint=f"It defines {known}; choose with --class.",
    )

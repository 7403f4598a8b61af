"""`elf check` and `elf repair`: find and repair damage in the data directory of a stopped agent."""

from __future__ import annotations

from pathlib import Path

import click

from elfmesh.cli.common import say
from elfmesh.text import printable


@click.command("check")
@click.argument("data_dir", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@click.pass_context
def check_command(ctx: click.Context, data_dir: Path, output: str) -> None:
    """Check DATA_DIR, the data directory of a stopped agent, for damage. Nothing is changed.

    The command prints each damaged place with its file, its offset, the fault, and what the agent does
    about it when it starts. The exit code is 1 if there is damage.
    """
    from elfmesh.agent.data_directory.examine import examine
    from elfmesh.ql.values.row_json import encode_json

    found = examine(data_dir)
    for each in found:
        if output == "json":
            line = {"file": str(each.path), "offset": each.offset, "what": each.what, "agent": each.agent}
            click.echo(encode_json(line | {"repair": each.repair.what if each.repair else None}).decode())
        else:
            at = "" if each.offset is None else f": byte {each.offset}"
            click.echo(printable(f"{each.path}{at}: {each.what}"))
            click.echo(printable(f"  The agent, when it starts: {each.agent}."))
    say(f"{data_dir}: {len(found)} damaged places" if found else f"{data_dir}: no damage")
    ctx.exit(1 if found else 0)


@click.command("repair")
@click.argument("data_dir", type=click.Path(path_type=Path))
@click.option(
    "--yes", is_flag=True, help="Perform the repair. Without this option, the command only prints it."
)
@click.pass_context
def repair_command(ctx: click.Context, data_dir: Path, yes: bool) -> None:
    """Print the repairs of damage in DATA_DIR; with --yes, perform them.

    The command keeps each file that it changes or moves as FILE.damaged. It leaves to the agent what the
    agent repairs with the help of the other agents. The exit code is 1 if there is damage that keeps the
    agent from starting, or if there are repairs and --yes is missing.
    """
    from elfmesh.agent.data_directory.examine import examine, repairs
    from elfmesh.agent.data_directory.repair import carry_out

    found = examine(data_dir)
    todo = repairs(found)
    for repair in todo:
        click.echo(printable(f"{repair.path}: {'' if yes else 'would '}{repair.what}"))
    for each in found:
        if each.repair is None:
            click.echo(printable(f"{each.path}: left to the agent. When it starts: {each.agent}"))
    if yes and todo:
        carry_out(data_dir, todo)
        say(f"{data_dir}: {len(todo)} repaired")
    elif todo:
        say(f"{data_dir}: nothing was changed; `elf repair {data_dir} --yes` performs the repair")
    else:
        say(f"{data_dir}: nothing to repair")
    stuck = [each for each in found if each.repair is None and "does not start" in each.agent]
    ctx.exit(1 if stuck or (todo and not yes) else 0)

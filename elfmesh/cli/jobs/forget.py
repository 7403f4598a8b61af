"""`elf forget`: removes dead agents from the list of agents."""

from __future__ import annotations

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, say
from elfmesh.errors import RuntimeFailure
from elfmesh.text import printable, suggest


@click.command("forget")
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...")
@api_option
def forget_command(agents: tuple[str, ...], api: str | None) -> None:
    """Remove the dead AGENT... (names or ids) from the list of agents.

    A dead agent stays listed for seven days, and `elf status` exits with 1 meanwhile. Forget an agent whose
    host does not return. Jobs do not change: they have excluded it five minutes after its death. If it does
    return, it is listed again. An agent that is down now does not forget; repeat the command when it is back.
    A living agent of the same name stays listed. Example: elf forget web3
    """
    client = Client(api)
    for agent in agents:
        rows = client.ask("agents")["agents"]
        same = [row for row in rows if agent in {row["name"], row["id"]}]
        dead = [row for row in rows if row["status"] == "dead"]
        found = [row["id"] for row in same if row["status"] == "dead"]
        if same and not found:
            hint = "`elf leave` makes an agent leave; stop it first to forget it."
            raise RuntimeFailure(f"{printable(agent)} is alive", hint=hint)
        if not found:
            hint = suggest(agent, [row["name"] for row in dead]) or "`elf get agents` lists the dead agents."
            raise RuntimeFailure(f"no dead agent is called {printable(agent)}", hint=hint)
        for each in found:  # by id, because an agent without a job in common knows it by its address
            client.forget(each)
        say(f"{printable(agent)} is forgotten")

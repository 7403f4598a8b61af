"""`elf plan JOB`: shows where the contributions of a running job are reduced."""

from __future__ import annotations

from collections.abc import Iterator

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import print_json
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_plan import JobLayout, PlannedGroup
from elfmesh.text import printable

NO_LABEL = "(no label)"


def show_layout(job: str, output: str, api: str | None) -> None:
    found = Client(api).ask("plan", job)
    if output == "json":
        print_json(found)
        return
    for line in layout_lines(read_reply(JobLayout, found)):
        click.echo(printable(line))


def layout_lines(plan: JobLayout) -> Iterator[str]:
    """Yield the lines of a layout: the job, its sites, its groups with their gateways, and notes."""
    groups: list[PlannedGroup] = []
    across = ""
    if plan.layout is not None:
        groups = plan.layout.groups
        across = f" ACROSS {plan.layout.label}" if plan.layout.label else ""
    sizes = ", ".join(f"{each.group or NO_LABEL} {each.agents}" for each in groups)
    agents = f"  {sum(each.agents for each in groups)} agents: {sizes}" if groups else ""
    yield plan.job + (f"  PATHS {plan.paths}{across}" if plan.paths else "") + agents
    for number, site in enumerate(() if plan.layout is None else plan.layout.sites):
        yield f"site {number}  {site.agent} {site.domain}".rstrip() + ("" if number else " (master)")
    for each in groups:
        names = ", ".join(gateway.agent for gateway in each.gateways)
        yield f"group {each.group or NO_LABEL}  gateway {names}"
    for note in plan.notes:
        yield f"note: {note}"

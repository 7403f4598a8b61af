"""`elf plan`: chooses which tasks of a topology get a replica."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.control.planning.planner import Planned
    from elfmesh.control.planning.topology import Topology

ALGORITHMS = ("auto", "exact-forest", "exact-full", "paths", "dp", "greedy", "structure-aware", "milp")
OBJECTIVES = ("all", "worst", "expected")
NAMES_MAX = 40
"""Names of tasks in a line of text."""


def _finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of replicas", context, parameter)
    return value


@click.command("plan")
@click.option(
    "--topology", "path", metavar="FILE", required=True, help="Topology in JSON; - reads standard input."
)
@click.option(
    "--budget", type=click.FloatRange(min=0), required=True, metavar="N", callback=_finite,
    help="Number of replicas, or their total cost where tasks have costs.",
)  # fmt: skip
@click.option(
    "--algorithm", type=click.Choice(ALGORITHMS), default="auto", show_default=True, help="Planner."
)
@click.option(
    "--objective", type=click.Choice(OBJECTIVES), default="all", show_default=True,
    help="What fails: all tasks, the worst single failure domain, or each domain with the same probability.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
def plan_command(path: str, budget: float, algorithm: str, objective: str, output: str) -> None:
    """Choose which tasks of a topology get a replica, so that the result is worth most after a loss.

    Fidelity is the share of the input that contributes to the result if only the replicated tasks live. The
    planner `auto` is exact for trees and for full topologies. `milp` needs the extra `planner`.
    """
    from elfmesh.control.planning.planner import plan
    from elfmesh.control.planning.topology_text import read_topology
    from elfmesh.local.text_input import read_text

    topology = read_topology(*read_text(path))
    found = plan(topology, budget, objective, algorithm)
    if output == "json":
        click.echo(json.dumps(asdict(found), ensure_ascii=False))
        return
    for line in lines(topology, budget, found):
        click.echo(printable(line))


def lines(topology: Topology, budget: float, found: Planned) -> list[str]:
    """Return the plan as text: its value, what is known about the optimum, and its tasks."""
    head = f"fidelity {found.fidelity:.3f}, {found.used:g} of {budget:g} used"
    return [f"{head} ({_optimum(topology, budget, found)})", f"  {_names(found.replicate)}"]


def _optimum(topology: Topology, budget: float, found: Planned) -> str:
    from elfmesh.control.planning.planner import plan

    if found.optimal:
        return f"optimal, {found.algorithm}"
    if found.algorithm in OBJECTIVES:
        return f"objective {found.algorithm}"
    best = plan(topology, budget)
    if best.optimal:
        names = _names(best.replicate)
        return f"{found.algorithm}; optimum {best.fidelity:.3f}, {best.algorithm}: {names}"
    return f"{found.algorithm}; the optimum is at most {found.bound:.3f}"


def _names(tasks: tuple[str, ...]) -> str:
    more = f", ... ({len(tasks) - NAMES_MAX} more)" if len(tasks) > NAMES_MAX else ""
    return (", ".join(tasks[:NAMES_MAX]) or "no replicas") + more

"""`elf plan`: chooses which tasks of a topology get a replica; shows the layout of a running or new job."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.cli.common import api_option
from elfmesh.errors import RuntimeFailure, UsageError
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.control.planning.planner import Planned
    from elfmesh.control.planning.topology import Topology

ALGORITHMS = (
    "auto", "exact-forest", "exact-full", "exact-small", "paths", "dp", "greedy", "structure-aware", "milp",
)  # fmt: skip
OBJECTIVES = ("all", "worst", "expected")
NAMES_MAX = 40
"""Names of tasks in a line of text."""


def _finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number to plan with", context, parameter)
    return value


@click.command("plan")
@click.argument("job", required=False)
@click.option("--topology", "path", metavar="FILE", help="Topology in JSON; - reads standard input.")
@click.option("-f", "--file", "text", metavar="FILE", help="Text of new jobs; - reads standard input.")
@click.option("--network", metavar="FILE", help="Network in JSON; - reads standard input.")
@click.option(
    "--replicas", type=click.IntRange(1, 5), default=2, show_default=True,
    help="With --network: number of replicas of each operator.",
)  # fmt: skip
@click.option(
    "--cost", type=click.FloatRange(min=0), metavar="X", callback=_finite,
    help="With --network: most that the streams may cost, as a multiple of one replica's.",
)  # fmt: skip
@click.option(
    "--write-topology", "to", metavar="FILE",
    help="Write the topology of JOB to FILE instead of planning; - writes to standard output.",
)  # fmt: skip
@click.option(
    "--across", "label", metavar="LABEL", default="rack", show_default=True,
    help="With --write-topology: the label whose values are failure domains.",
)  # fmt: skip
@click.option(
    "--budget", type=click.FloatRange(min=0), metavar="N", callback=_finite,
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
@api_option
def plan_command(
    job: str | None,
    path: str | None,
    text: str | None,
    network: str | None,
    replicas: int,
    cost: float | None,
    to: str | None,
    label: str,
    budget: float | None,
    algorithm: str,
    objective: str,
    output: str,
    api: str | None,
) -> None:
    """Choose which tasks of a topology get a replica, so that the result is worth most after a loss.

    Fidelity is the share of the input that contributes to the result if only the replicated tasks live. The
    planner `auto` is exact for trees, full topologies and few tasks. `milp` needs the extra `planner`.

    With --network, the command chooses servers for the replicas of operators, so that their streams cost the
    network least, and with --cost the streams that are worth least for what they cost.

    With -f, the command shows the layout that each job of a file would have with the agents that answer now:
    sites, groups, gateways, and what crosses between groups.

    With JOB, the command shows the groups of the members of a running job, the gateway that reduces the
    contributions of each group (PATHS), and which members have standbys and what these keep (STANDBY). With
    JOB and --write-topology, it writes the members, their usual records and labels.
    """
    if sum(each is not None for each in (job, path, text, network)) > 1:
        raise UsageError("a plan is of one of JOB, -f FILE, --topology FILE and --network FILE")
    if network is not None:
        from elfmesh.cli.local.network_plan import show_network

        show_network(network, replicas, cost, output)
        return
    if text is not None:
        from elfmesh.cli.local.job_layout import show_expected

        show_expected(text, output, api)
        return
    if job is not None:
        if to is None:
            from elfmesh.cli.local.job_layout import show_layout

            show_layout(job, output, api)
            return
        _write(job, to, label, api)
        return
    if path is None or budget is None or to is not None:
        raise UsageError("elf plan needs --topology and --budget, --network, JOB, or -f FILE")
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


def _write(job: str, to: str, label: str, api: str | None) -> None:
    from elfmesh.api.client.client import Client
    from elfmesh.api.job_topology import job_topology

    client = Client(api)
    values = job_topology(client.ask("agents")["agents"], client.describe(job), label)
    text = json.dumps(values, ensure_ascii=False, indent=1) + "\n"
    if to == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(to).write_text(text)
    except OSError as error:
        raise RuntimeFailure(f"{to}: {error.strerror}") from None


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

"""`elf plan --network`: where the replicas of stages run, and which streams between them may be idle."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import click

from elfmesh.cli.common import print_json
from elfmesh.control.planning.deployment import Deployment, Network, deployed, improved, total_cost
from elfmesh.control.planning.network_text import Weights, read_network
from elfmesh.control.planning.pruning import Pruned, ReplicaStream, pruned, streams_of
from elfmesh.local.text_input import read_text
from elfmesh.text import printable

SEED = 1
"""Of the random layouts from which the improvement begins, so that a plan is the same every time."""

KEPT_MIN = 2
"""Replicas that each stage keeps when streams are discarded, if it has so many."""


def show_network(path: str, replicas: int, cost: float | None, output: str) -> None:
    network, weights = read_network(*read_text(path))
    found = improved(network, deployed(network, replicas), random.Random(SEED))
    single = total_cost(network, improved(network, deployed(network, 1), random.Random(SEED)).places)
    limit = float("inf") if cost is None else cost * single
    streams = _pruned(network, found, weights, limit, replicas)
    if output == "json":
        print_json(_values(network, found, streams, single))
        return
    for line in _lines(network, found, streams, single, cost):
        click.echo(printable(line))


def _pruned(network: Network, found: Deployment, weights: Weights, limit: float, replicas: int) -> Pruned:
    return pruned(streams_of(network, found.places, weights), limit, min(KEPT_MIN, replicas))


def _values(network: Network, found: Deployment, streams: Pruned, single: float) -> Mapping[str, Any]:
    return {
        "places": {name: list(servers) for name, servers in found.places.items()},
        "cost": sum(each.cost for each in streams.kept),
        "cost_of_all": total_cost(network, found.places),
        "cost_of_one": single,
        "kept": [_pair(each) for each in streams.kept],
        "idle": [[_pair(each) for each in group] for group in streams.discarded],
        "within": streams.reached,
        "notes": list(found.notes),
    }


def _pair(stream: ReplicaStream) -> list[str]:
    return [*stream.source, *stream.destination]


def _lines(
    network: Network, found: Deployment, streams: Pruned, single: float, cost: float | None
) -> Iterator[str]:
    for stage in network.stages:
        fixed = " (fixed)" if stage.at else ""
        yield f"{stage.name}  {', '.join(found.places[stage.name])}{fixed}"
    spent, everything = sum(each.cost for each in streams.kept), total_cost(network, found.places)
    times = f", {spent / single:.2f} x that of one replica" if single else ""
    yield f"cost {spent:g}{times}; all streams {everything:g}"
    for group in streams.discarded:
        yield "idle  " + "; ".join(
            f"{' '.join(each.source)} -> {' '.join(each.destination)}" for each in group
        )
    if not streams.reached:
        yield f"note: no more streams can be idle, so the cost stays above {cost:g} x that of one replica"
    for note in found.notes:
        yield f"note: {note}"

"""Reads a network in JSON: servers, the latency between them, stages, and the flows between stages.

Owns the text. A refusal names the place in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from elfmesh.control.planning.deployment import Flow, Network, PlacedStage, Server
from elfmesh.control.planning.pruning import Replica
from elfmesh.errors import DataError

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class _Server(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    capacity: Amount = 1.0
    domain: str = ""


class _Stage(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    load: Amount = 0.0
    at: tuple[Name, ...] = ()


class _Flow(msgspec.Struct, forbid_unknown_fields=True):
    rate: Amount
    source: Name = msgspec.field(name="from")
    destination: Name = msgspec.field(name="to")


class _Network(msgspec.Struct, forbid_unknown_fields=True):
    servers: tuple[_Server, ...]
    latency: tuple[tuple[Name, Name, Amount], ...]
    stages: tuple[_Stage, ...]
    flows: tuple[_Flow, ...]
    weights: tuple[tuple[Name, Name, Name, Name, Amount], ...] = ()
    busy: Amount = Network.busy
    apart: Amount = Network.apart_s


Weights = dict[tuple[Replica, Replica], float]


def read_network(text: str, source: str) -> tuple[Network, Weights]:
    """Read a network, and the weights of streams between replicas.

    Args:
        text: JSON.
        source: name of the file in messages.

    Raises:
        DataError: the text is no network.
    """
    try:
        found = msgspec.json.decode(text, type=_Network)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        where = place.strip("`.")
        raise DataError(message, where=f"{source}: {where}" if where else source) from None
    except msgspec.DecodeError as error:
        raise DataError(
            f"not JSON: {error}",
            where=source,
            hint="Write the file as JSON, with double quotes and without comments.",
        ) from None
    servers = _unique((each.name for each in found.servers), "server", source)
    stages = _unique((each.name for each in found.stages), "stage", source)
    latency: dict[tuple[str, str], float] = {}
    for one, other, seconds in found.latency:
        _known((one, other), servers, "server", f"{source}: latency")
        latency[one, other] = latency[other, one] = seconds
    for one in servers:
        for other in servers:
            if one != other and (one, other) not in latency:
                raise DataError(f"there is none between {one} and {other}", where=f"{source}: latency")
    for stage in found.stages:
        _known(stage.at, servers, "server", f"{source}: stages: {stage.name}")
    for flow in found.flows:
        _known((flow.source, flow.destination), stages, "stage", f"{source}: flows")
        if stages.index(flow.source) >= stages.index(flow.destination):
            hint = "List the stages from the sources down."
            problem = f"{flow.destination} stands before {flow.source}, which sends to it"
            raise DataError(problem, where=f"{source}: stages", hint=hint)
    network = Network(
        tuple(Server(each.name, each.capacity, each.domain) for each in found.servers),
        tuple(PlacedStage(each.name, each.load, each.at) for each in found.stages),
        tuple(Flow(each.source, each.destination, each.rate) for each in found.flows),
        latency,
        found.busy,
        found.apart,
    )
    return network, {((a, at), (b, to)): weight for a, at, b, to, weight in found.weights}


def _unique(names: Iterable[str], what: str, source: str) -> list[str]:
    found = list(names)
    for name in found:
        if found.count(name) > 1:
            raise DataError(f"two are called {name}", where=f"{source}: {what}s")
    return found


def _known(names: Iterable[str], known: list[str], what: str, where: str) -> None:
    for name in names:
        if name not in known:
            raise DataError(f"there is no {what} {name}", where=where)

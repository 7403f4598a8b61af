"""Where the replicas of stages run, so that their streams cost the network least: Algorithm 5, and better.

The cost of a stream is its rate times the latency between its ends, summed over all pairs of replicas. The
replicas of one stage keep a distance, so that they do not fail together. Pure functions.

Algorithm 5 leaves open what counts while neighbours are not placed, what a placement adds to a load, and what
is done without candidates. Here only streams whose other end is placed count, each replica adds its load, and
requirements are dropped one after the other, with a note. `improved` chooses the best set of servers for one
stage while the others stay, until the cost falls no further.

Paper: Hwang et al. V-A. Deviations: domains, where servers state them, before
latency as a sign of independence; the improvement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

STARTS = 16
"""Random layouts from which the improvement begins, besides that of Algorithm 5."""

T = TypeVar("T")


class Chooser(Protocol):
    """The part of a seeded `random.Random` that is used."""

    def choice(self, seq: Sequence[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Server:
    """A server; `domain` is where it may fail together with others, "" if that is not known."""

    name: str
    capacity: float = 1.0
    domain: str = ""


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """An operator with the load of one replica, or, with `at`, a source or reader that stays where it is.

    `only`: the servers that may run it; None: all. `most`: how many replicas it has; None: as many as others.
    """

    name: str
    load: float = 0.0
    at: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """What one stage sends to another one, by replica, in bytes per second."""

    source: str
    destination: str
    rate: float


@dataclass(frozen=True)
class Network:
    """What is placed, and where it may be.

    Attributes:
        servers: in the order in which equal ones are chosen.
        stages: from the sources down.
        flows: between the stages.
        latency: seconds one way, by names of two servers; 0 between a server and itself.
        busy: share of the capacity of a server that may be used.
        apart_s: latency that the replicas of one stage must exceed.
    """

    servers: tuple[Server, ...]
    stages: tuple[PlacedStage, ...]
    flows: tuple[Flow, ...]
    latency: Mapping[tuple[str, str], float]
    busy: float = 0.7
    apart_s: float = 0.05

    def between(self, one: str, other: str) -> float:
        return 0.0 if one == other else self.latency[one, other]


Places = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Deployment:
    """The servers of each stage, and which requirements were dropped."""

    places: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = field(default=())


def cost_at(network: Network, places: Places, stage: str, server: str) -> float:
    """Return what the streams of one replica cost at a server, with all placed replicas around it."""
    total = 0.0
    for flow in network.flows:
        if flow.destination == stage:
            total += flow.rate * sum(network.between(each, server) for each in places[flow.source])
        if flow.source == stage:
            total += flow.rate * sum(network.between(server, each) for each in places[flow.destination])
    return total


def total_cost(network: Network, places: Places) -> float:
    return sum(
        flow.rate * network.between(one, other)
        for flow in network.flows
        for one in places[flow.source]
        for other in places[flow.destination]
    )


def deployed(network: Network, replicas: int) -> Deployment:
    """Return the deployment of Algorithm 5: in each phase a replica of each operator, at least cost."""
    places = {stage.name: stage.at for stage in network.stages}
    notes: list[str] = []
    phases = max([replicas, *(stage.most or 0 for stage in network.stages)])
    for phase in range(phases):
        for stage in network.stages:
            if not stage.at and phase < (replicas if stage.most is None else stage.most):
                found, note = _candidates(network, places, stage)
                notes += [note] if note else []
                if found:
                    best = min(found, key=lambda each: cost_at(network, places, stage.name, each.name))
                    places[stage.name] += (best.name,)
    return Deployment(places, tuple(dict.fromkeys(notes)))


def improved(network: Network, begin: Deployment, rng: Chooser) -> Deployment:
    """Return the cheapest deployment that exchanging the servers of one stage at a time reaches.

    It begins from `begin`, and from random deployments with as many replicas that keep the same requirements.
    """
    best = begin.places
    for start in (begin.places, *(_random_places(network, begin.places, rng) for _ in range(STARTS))):
        found = _descended(network, start)
        if total_cost(network, found) < total_cost(network, best):
            best = found
    return Deployment(dict(best), begin.notes)


def _descended(network: Network, start: Places) -> dict[str, tuple[str, ...]]:
    places, cost = dict(start), total_cost(network, start)
    while True:
        for stage in network.stages:
            if not stage.at:
                places[stage.name] = _best_set(network, places, stage)
        now = total_cost(network, places)
        if now >= cost:
            return places
        cost = now


def _best_set(network: Network, places: dict[str, tuple[str, ...]], stage: PlacedStage) -> tuple[str, ...]:
    """Return the cheapest servers for all replicas of a stage, with the distances that it has now at least.

    Branch and bound: the cost of a set is the sum over its servers, which are tried in order of their cost.
    """
    present = places[stage.name]
    others = places | {stage.name: ()}
    rule = _kept_requirement(network, present)
    free = [each for each in network.servers if _has_room(network, others, stage, each)]
    costs = {each.name: cost_at(network, places, stage.name, each.name) for each in free}
    order = sorted(free, key=lambda each: costs[each.name])
    best, least = present, sum(cost_at(network, places, stage.name, each) for each in present)

    def extend(chosen: tuple[Server, ...], at: int, spent: float) -> None:
        nonlocal best, least
        missing = len(present) - len(chosen)
        if not missing:
            best, least = tuple(each.name for each in chosen), spent
            return
        for index in range(at, len(order) - missing + 1):
            server = order[index]
            bound = spent + sum(costs[each.name] for each in order[index : index + missing])
            if bound >= least:
                return
            if all(rule(server, each) for each in chosen):
                extend((*chosen, server), index + 1, spent + costs[server.name])

    extend((), 0, 0.0)
    return best


def _random_places(network: Network, like: Places, rng: Chooser) -> dict[str, tuple[str, ...]]:
    """Return a deployment of random servers, if requirements and loads permit one; else that of `like`."""
    places = {stage.name: stage.at for stage in network.stages}
    for stage in network.stages:
        rule = _kept_requirement(network, like[stage.name])
        for _ in like[stage.name] if not stage.at else ():
            chosen = [each for each in network.servers if each.name in places[stage.name]]
            found = [
                each
                for each in network.servers
                if _has_room(network, places, stage, each) and all(rule(each, other) for other in chosen)
            ]
            if not found:
                return dict(like)
            places[stage.name] += (rng.choice(found).name,)
    return places


Rule = Callable[[Server, Server], bool]


def _requirements(network: Network) -> tuple[tuple[str, Rule], ...]:
    """Return what may separate two replicas of a stage, the strongest first."""

    def far(one: Server, other: Server) -> bool:
        return network.between(one.name, other.name) > network.apart_s

    def elsewhere(one: Server, other: Server) -> bool:
        return bool(one.domain and other.domain) and one.domain != other.domain

    def another(one: Server, other: Server) -> bool:
        return one.name != other.name

    return (
        ("another domain and far away", lambda one, other: elsewhere(one, other) and far(one, other)),
        ("another domain", elsewhere),
        ("far away", far),
        ("another server", another),
    )


def _kept_requirement(network: Network, names: Sequence[str]) -> Rule:
    """Return the strongest requirement that the servers of a stage keep."""
    servers = [each for each in network.servers if each.name in names]
    pairs = [(one, other) for one in servers for other in servers if one.name < other.name]
    *strong, (_, weakest) = _requirements(network)
    return next((rule for _, rule in strong if all(rule(*pair) for pair in pairs)), weakest)


def _candidates(network: Network, places: Places, stage: PlacedStage) -> tuple[list[Server], str]:
    """Return the servers where another replica may run, and which requirement was dropped for them."""
    free = [each for each in network.servers if _has_room(network, places, stage, each)]
    present = [each for each in network.servers if each.name in places[stage.name]]
    names = _requirements(network)
    first = 0 if any(each.domain for each in network.servers) else 2
    for number, (what, rule) in enumerate(names[first:]):
        found = [each for each in free if all(rule(each, other) for other in present)]
        if found:
            return found, f"{stage.name}: no server is {names[first][0]}, but {what}" if number else ""
    return [], f"{stage.name}: no other server has room"


def _has_room(network: Network, places: Places, stage: PlacedStage, server: Server) -> bool:
    if stage.only is not None and server.name not in stage.only:
        return False
    loads = {each.name: each.load for each in network.stages}
    used = sum(loads[name] * servers.count(server.name) for name, servers in places.items())
    return used + stage.load < network.busy * server.capacity

"""Where Algorithm 5 and its improvement place the gateways and sites of a job, by measured latencies.

Owns the network that a job is: the members of each group are sources, which stay where they are; each group
has its gateways among its members; the sites are the master and members of other groups. Each stream has the
rate 1, because a contribution is about as large at every member. Pure: `layouts` decides when it runs and
whether the present layout costs enough more to be changed.

Invariant: a gateway is a member of its group, and only allowed agents are candidates, so that no placement
departs from `paths.layout`.

Paper: Hwang et al. V-A. Deviation: of each group, at most `CANDIDATES` members are considered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from elfmesh.control.jobs.terms import PathLayout
from elfmesh.control.paths.layout import Path, by_group, gateways_of, group_of
from elfmesh.control.paths.round_trips import Latencies, RoundTrips
from elfmesh.control.planning.deployment import (
    Chooser,
    Flow,
    Network,
    PlacedStage,
    Server,
    deployed,
    improved,
    total_cost,
)
from elfmesh.machine import Contact

CANDIDATES = 8
"""Members of a group that are considered: those with the least mean latency to other agents."""

MASTER, SITES = "master", "sites"


@dataclass(frozen=True, slots=True)
class LatencyPlacement:
    """A better layout.

    Attributes:
        gateways: agents of each group.
        sites: agents beside the master.
        cost: latencies of all streams together, and `before` those of the present layout.
    """

    gateways: Mapping[str, tuple[bytes, ...]]
    sites: tuple[bytes, ...]
    cost: float
    before: float


def better_placement(
    layout: PathLayout,
    master: Contact,
    members: Sequence[Contact],
    trips: RoundTrips,
    gateways: Collection[bytes],
    sites: Collection[bytes],
    rng: Chooser,
) -> LatencyPlacement | None:
    """Return the placement that costs least; None without measurements.

    Args:
        layout: the present one.
        master: the first site.
        members: of the job.
        trips: what they have measured.
        gateways: members that may be gateways.
        sites: members that may be sites.
        rng: chooses layouts from which the improvement begins.
    """
    groups = {each.id: group_of(each, layout.label) for each in (*members, master)}
    latencies = trips.latencies(groups)
    if latencies is None:
        return None
    present = {each.contact.id for each in layout.gateways} | {each.id for each in layout.sites}
    chosen = _candidates(layout, members, latencies, present, trips)
    network = _network(layout, master, chosen, latencies, gateways, sites)
    before: dict[str, tuple[str, ...]] = {stage.name: stage.at for stage in network.stages}
    for group, agents in by_group(layout).items() if layout.label else ():
        before[f"gateway {group}"] = _names(each.id for each in agents)
    if len(layout.sites) > 1:
        before[SITES] = tuple(each.id.hex() for each in layout.sites[1:])
    found = improved(network, deployed(network, 1), rng).places
    if any(len(found[name]) != len(before[name]) for name in found):
        return None  # a group or a site has no candidate now
    away = tuple(bytes.fromhex(each) for each in found.get(SITES, ()))
    return LatencyPlacement(
        {group: tuple(map(bytes.fromhex, found[f"gateway {group}"])) for group in by_group(layout)}
        if layout.label
        else {"": (master.id, *away)},
        away,
        total_cost(network, found),
        total_cost(network, before),
    )


def _candidates(
    layout: PathLayout,
    members: Sequence[Contact],
    latencies: Latencies,
    present: Collection[bytes],
    trips: RoundTrips,
) -> dict[str, list[Contact]]:
    """Return the members of each group that are considered; those of the present layout are among them."""
    found: dict[str, list[Contact]] = {each.group: [] for each in layout.gateways}
    for each in members:
        found.setdefault(group_of(each, layout.label), []).append(each)
    ends = [each.contact.id for each in layout.gateways]

    def order(agent: Contact) -> tuple[bool, bool, float, bytes]:
        mean = sum(latencies.between(agent.id, end) for end in ends)
        return agent.id not in present, not trips.has_reported(agent.id), mean, agent.id

    return {group: sorted(agents, key=order)[:CANDIDATES] for group, agents in found.items()}


def _network(
    layout: PathLayout,
    master: Contact,
    chosen: Mapping[str, Sequence[Contact]],
    latencies: Latencies,
    gateways: Collection[bytes],
    sites: Collection[bytes],
) -> Network:
    agents = {each.id: each for each in (master, *(each for group in chosen.values() for each in group))}
    here = group_of(master, layout.label)
    servers = tuple(Server(each.id.hex(), 1.0, group_of(each, layout.label)) for each in agents.values())
    stages, flows = [], []
    for group, present in by_group(layout).items():
        members = [agent.id for agent in chosen[group]]
        may = frozenset(agent.hex() for agent in members if agent in gateways)
        source, gateway = f"members {group}", f"gateway {group}"
        stages.append(PlacedStage(source, at=_names(members)))
        ends = gateway if layout.label else source  # without a label, the sites are the gateways
        if layout.label:
            stages.append(PlacedStage(gateway, only=may, most=len(present)))
            flows.append(Flow(source, gateway, 1.0))
        flows.append(Flow(ends, MASTER, 1.0))
        flows += [Flow(ends, SITES, 1.0)] if len(layout.sites) > 1 else []
    stages.append(PlacedStage(MASTER, at=(master.id.hex(),)))
    if (count := len(layout.sites) - 1) > 0:
        allowed = [each for each in agents.values() if each.id in sites and each.id != master.id]
        apart = [each for each in allowed if group_of(each, layout.label) != here]
        enough = len({group_of(each, layout.label) for each in apart}) >= count
        only = frozenset(each.id.hex() for each in (apart if enough else allowed))
        stages.append(PlacedStage(SITES, only=only, most=count))
    latency = {
        (one.hex(), other.hex()): latencies.between(one, other)
        for one in agents
        for other in agents
        if one != other
    }
    return Network(servers, tuple(stages), tuple(flows), latency)


def _names(agents: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(each.hex() for each in agents)


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long after the last seal of an interval its record is at the farthest site, in seconds.

    Attributes:
        by_votes: if votes of the sites close it.
        by_master: if the master closes it, with as many voters as sites.
        measured: of the latencies that this is made of, how many are measured.
        of: how many these are.
    """

    by_votes: float
    by_master: float
    measured: int
    of: int


def expectation(
    layout: PathLayout,
    master: Contact,
    members: Sequence[Contact],
    trips: RoundTrips,
    idle: Collection[Path] = (),
) -> Expectation | None:
    """Return what the latencies of a layout amount to, without queues and losses; None: none is measured.

    A site for which all paths of a group are idle takes the record of another site.
    """
    groups = {each.id: group_of(each, layout.label) for each in (*members, master, *layout.sites)}
    latencies = trips.latencies(groups)
    if latencies is None:
        return None
    sites = [each.id for each in layout.sites or (master,)]
    used: set[tuple[bytes, bytes]] = set()

    def between(one: bytes, other: bytes) -> float:
        if one != other:
            used.add((min(one, other), max(one, other)))
        return latencies.between(one, other)

    collected: dict[str, dict[bytes, float]] = {}
    for member in members:
        ends = [each.contact.id for each in gateways_of(member, layout)] or [member.id]
        spent = collected.setdefault(group_of(member, layout.label), {})
        for at in ends:
            spent[at] = max(spent.get(at, 0.0), between(member.id, at))

    def arrival(site: bytes) -> float:
        live = [
            [spent + between(at, site) for at, spent in each.items() if (at, site) not in idle]
            for each in collected.values()
        ]
        return max((min(each, default=inf) for each in live), default=0.0)

    made = {site: arrival(site) for site in sites}
    arrived = [min(since + between(one, site) for one, since in made.items()) for site in sites]
    majority = len(sites) // 2
    voted = [
        sorted(since + between(one, site) for since, one in zip(arrived, sites, strict=True))[majority]
        for site in sites
    ]
    round_s = 2 * sorted(between(sites[0], each) for each in sites)[majority]
    farthest = max(between(sites[0], each) for each in sites)
    known = sum(latencies.is_measured(*pair) for pair in used)
    return Expectation(max(voted), made[sites[0]] + round_s + farthest, known, len(used))

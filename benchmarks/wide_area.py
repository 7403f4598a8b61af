"""Placement by what members have measured: medians of groups against coordinates, on recorded round trips.

A fleet is drawn from the sites of a trace and divided into regions of near sites. Each member has measured
the round trips to some others only. `ranking` compares what stands for a pair that no member has measured:
the median of its two groups, as masters take it, and coordinates (Vivaldi, three dimensions and a height),
which learn from the same measurements. Both are compared with the placement that all true latencies give.

The traces are no part of the project. Those that are absent are skipped; `drawn` has places in a plane, with
access links and detours.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import wide_agents, wide_faults, wide_model, wide_pruning, wide_sim
from benchmarks.harness import Figure, checked
from benchmarks.wide_traces import TRACES, Trace, read, regions_of
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.control.paths.latency_placement import LatencyPlacement, better_placement
from elfmesh.control.paths.round_trips import RoundTrips
from elfmesh.machine import Contact

SITES = 3
SHARES = {False: (0.1, 0.25, 0.5), True: (0.25,)}
"""Shares of the other members to which a member has measured a round trip."""

FLEETS = {False: 6, True: 1}
ROUNDS, GAIN = 300, 0.25
"""Samples of each pair for the coordinates, and how far a sample moves them."""

Measured = dict[tuple[int, int], float]
"""Seconds one way, by two agents, the lower first."""


def coordinates(size: int, measured: Measured, seed: int) -> Callable[[int, int], float]:
    """Return the latency that Vivaldi estimates: places in three dimensions, and heights above them."""
    rng = np.random.default_rng(seed)
    at, height, error = rng.normal(0, 1e-3, (size, 3)), np.full(size, 1e-3), np.ones(size)
    pairs = list(measured.items())
    for _ in range(ROUNDS):
        for index in rng.permutation(len(pairs)):
            (one, other), seconds = pairs[index]
            for mine, peer in ((one, other), (other, one)):
                apart = at[mine] - at[peer]
                flat = float(np.linalg.norm(apart)) or 1e-9
                found = flat + height[mine] + height[peer]
                trust = error[mine] / (error[mine] + error[peer])
                off = abs(found - seconds) / seconds
                error[mine] = min(1.0, max(1e-3, off * GAIN * trust + error[mine] * (1 - GAIN * trust)))
                force = GAIN * trust * (seconds - found)
                at[mine] += force * apart / flat
                height[mine] = max(1e-5, height[mine] + force * height[mine] / found)

    def between(one: int, other: int) -> float:
        return float(np.linalg.norm(at[one] - at[other]) + height[one] + height[other])

    return between


class Fleet:
    """Agents of a trace, whose first one is the master, with what they have measured."""

    def __init__(self, trace: Trace, number: int, share: float) -> None:
        self.rng = random.Random(f"{trace.name}/{number}")
        matrix = read(trace)
        usable = [at for at in range(len(matrix)) if np.isfinite(matrix[at]).mean() > 0.9]
        chosen = self.rng.sample(usable, min(trace.size, len(usable)))
        self.true = matrix[np.ix_(chosen, chosen)]
        finite = self.true[np.isfinite(self.true)]
        self.true = np.where(np.isfinite(self.true), self.true, finite.max())
        self.regions = regions_of(self.true, self.rng)
        self.agents = [
            Contact(bytes([at + 1]) * 20, "host", at, 1, region=f"r{region}")
            for at, region in enumerate(self.regions)
        ]
        self.measured: Measured = {}
        others = range(len(chosen))
        for one in others:
            for other in self.rng.sample(others, round(share * len(chosen))):
                if one != other:
                    self.measured[min(one, other), max(one, other)] = float(self.true[one, other])

    def placed(self, known: Measured) -> LatencyPlacement:
        """Return the placement that follows from these latencies, by groups where one is missing."""
        trips = RoundTrips()
        for at, agent in enumerate(self.agents):
            found = [(pair, seconds) for pair, seconds in known.items() if at in pair]
            trips.report(
                agent.id, [(self.agents[sum(pair) - at].id, round(s * 2e6)) for pair, s in found], 0.0
            )
        gateways = {each.region: Gateway(each.region, each) for each in reversed(self.agents)}
        named = tuple(gateways[group] for group in sorted(gateways))
        away = [each.contact for each in named if each.contact.region != self.agents[0].region]
        layout = PathLayout("region", named, (self.agents[0], *away[: SITES - 1]))
        all_of_them = {each.id for each in self.agents}
        about = layout, self.agents[0], self.agents, trips, all_of_them, all_of_them
        placement = better_placement(*about, random.Random(1))
        assert placement is not None
        return placement

    def cost(self, placement: LatencyPlacement) -> float:
        """Return the true latencies of all streams of a placement together."""
        number = {each.id: at for at, each in enumerate(self.agents)}
        sites = [0, *(number[each] for each in placement.sites)]
        total = 0.0
        for group, (agent,) in placement.gateways.items():
            gateway = number[agent]
            total += sum(self.true[gateway, site] for site in sites)
            members = [at for at, each in enumerate(self.agents) if each.region == group]
            total += sum(self.true[gateway, member] for member in members)
        return float(total)

    def errors(self, estimate: Callable[[int, int], float]) -> list[float]:
        """Return the relative errors for the pairs that no member has measured."""
        size = len(self.agents)
        unknown = ((one, two) for one in range(size) for two in range(one + 1, size))
        return [
            abs(estimate(*pair) - self.true[pair]) / self.true[pair]
            for pair in unknown
            if pair not in self.measured and self.true[pair] > 0
        ]


def ranking(*, small: bool) -> Iterator[Figure]:
    """Compare the costs of placements, and the errors of estimates."""
    for trace in TRACES:
        if trace.is_absent:
            yield Figure(f"ranking, {trace.name}", 0, "", skipped="the traces are absent")
            continue
        for share in SHARES[small]:
            yield from _ranking(trace, share, FLEETS[small])


def _ranking(trace: Trace, share: float, fleets: int) -> Iterator[Figure]:
    costs: dict[str, list[float]] = {"medians": [], "coordinates": []}
    errors: dict[str, list[float]] = {"medians": [], "coordinates": []}
    for number in range(fleets):
        fleet = Fleet(trace, number, share)
        size = len(fleet.agents)
        pairs = [(one, two) for one in range(size) for two in range(one + 1, size)]
        everything = {pair: float(fleet.true[pair]) for pair in pairs if fleet.true[pair] > 0}
        best = fleet.cost(fleet.placed(everything))
        vivaldi = coordinates(size, fleet.measured, number)
        filled = {pair: fleet.measured.get(pair, vivaldi(*pair)) for pair in pairs}
        costs["medians"].append(fleet.cost(fleet.placed(fleet.measured)) / best)
        costs["coordinates"].append(fleet.cost(fleet.placed(filled)) / best)
        errors["medians"] += fleet.errors(medians(fleet))
        errors["coordinates"] += fleet.errors(vivaldi)
    about = f"{trace.name}, {share:.0%} of pairs measured"
    for name in costs:
        checked(len(costs[name]) == fleets, "each fleet has a placement")
        yield Figure(f"cost of the placement, {name}, {about}", statistics.mean(costs[name]), "x true")
        yield Figure(f"worst cost, {name}, {about}", max(costs[name]), "x true")
        yield Figure(f"median error, {name}, {about}", 100 * statistics.median(errors[name]), "%")


def medians(fleet: Fleet) -> Callable[[int, int], float]:
    """Return the latency that a master takes for a pair that no member has measured."""
    trips = RoundTrips()
    for (one, other), seconds in fleet.measured.items():
        known = trips._reports.get(fleet.agents[one].id, (0.0, {}))[1]
        trips._reports[fleet.agents[one].id] = 0.0, {**known, fleet.agents[other].id: seconds}
    latencies = trips.latencies({each.id: each.region for each in fleet.agents})
    assert latencies is not None
    return lambda one, other: latencies.between(fleet.agents[one].id, fleet.agents[other].id)


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {
    "ranking": ranking,
    **wide_agents.PARTS,
    **wide_faults.PARTS,
    **wide_model.PARTS,
    **wide_pruning.PARTS,
    **wide_sim.PARTS,
}

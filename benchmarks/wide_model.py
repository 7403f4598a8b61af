"""The experiments of the paper on latency, placement and pruning (Fig. 3, 4, 5), by a vectorised model.

Owns the paper's query as a graph of streams, and the latency of its tuples at given latencies of links: 30
servers with two streams each (load and latency), a union of each, a join of both readings of one server, and
a filter for each of ten applications. A replica passes on the first copy of a tuple; the join waits for both.
A tuple travels by the latencies of one slice. There is no processing, no queue and no loss.

Where replicas run and which streams are discarded is decided by the product's functions
(`control.planning.deployment`, Algorithm 5; `control.planning.pruning`, Algorithm 6).

Paper: Hwang et al. VI-C, VI-E, VI-F. Deviations: the trace is PlanetLab's matrices, which stall as the pairs
of the Seattle trace, because the paper's own is not available; placements begin with Algorithm 5 and its
improvement instead of spring relaxation; a revived stream is that of least latency from a replica that works.
"""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Figure, checked
from benchmarks.wide_traces import Matrix, WideNetwork, reference, stalls
from elfmesh.control.planning.deployment import (
    Flow,
    Network,
    PlacedStage,
    Places,
    Server,
    deployed,
    improved,
    total_cost,
)

SERVERS, APPLICATIONS = 30, 10
KINDS = ("load", "latency")
APART_S, LOAD = 0.03, 0.02
"""The least latency between replicas (the paper: 30 to 70 ms), and the load of a replica."""

DEGREES = (1, 2, 3, 4, 5)
STEP_S = 15.7
MONTH = {False: round(float(os.environ.get("ELF_WIDE_DAYS", "30")) * 86400 / STEP_S), True: 800}
THREE_HOURS = {False: round(3 * 3600 / STEP_S), True: 200}
FLEETS = {False: 10, True: 2}
CHUNK, BATCH = 40, 50
"""Slices for which a pair stalls as one pair of the trace does, and chunks that are computed at once."""

LIMITS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
EDGES = np.concatenate([[0.0], np.geomspace(1e-3, 100.0, 2001)])
"""Of the histogram from which quantiles are taken: each bin is 0.6 % wide."""

Indices = Mapping[str, NDArray[np.intp]]


@lru_cache
def query(seed: int) -> tuple[Network, WideNetwork]:
    """Return the paper's query on 30 servers of the reference network, and that network."""
    wide = reference(SERVERS // 5, 1, seed)
    names = [f"s{number:02}" for number in range(SERVERS)]
    stages, flows = [], []
    for kind in KINDS:
        stages.append(PlacedStage(kind, at=tuple(names)))
        flows.append(Flow(kind, f"union {kind}", 1.0))
    stages += [PlacedStage(f"union {kind}", LOAD) for kind in KINDS]
    stages.append(PlacedStage("join", LOAD))
    flows += [Flow(f"union {kind}", "join", float(SERVERS)) for kind in KINDS]
    for number in range(APPLICATIONS):
        stages.append(PlacedStage(f"filter {number}", LOAD))
        flows.append(Flow("join", f"filter {number}", float(SERVERS)))
        flows.append(Flow(f"filter {number}", f"application {number}", float(SERVERS)))
    readers = random.Random(f"readers/{seed}").sample(names, APPLICATIONS)
    stages += [PlacedStage(f"application {number}", at=(name,)) for number, name in enumerate(readers)]
    latency = {
        (one, two): float(wide.usual[a, b])
        for a, one in enumerate(names)
        for b, two in enumerate(names)
        if a != b
    }
    servers = tuple(Server(name) for name in names)
    return Network(servers, tuple(stages), tuple(flows), latency, apart_s=APART_S), wide


@lru_cache
def min_cost(seed: int, degree: int) -> Places:
    """Return the placement of Algorithm 5 with the improvement, as `elf plan --network` has it."""
    network, _ = query(seed)
    return improved(network, deployed(network, degree), random.Random(seed)).places


@lru_cache
def at_random(seed: int, degree: int) -> Places:
    """Return the unreplicated placement with more replicas at random servers."""
    network, _ = query(seed)
    rng, found = random.Random(f"random/{seed}"), dict(min_cost(seed, 1))
    for stage in network.stages:
        while not stage.at and len(found[stage.name]) < degree:
            rest = [each.name for each in network.servers if each.name not in found[stage.name]]
            found[stage.name] += (rng.choice(rest),)
    return found


def bandwidth(network: Network, places: Places) -> float:
    return sum(each.rate * len(places[each.source]) * len(places[each.destination]) for each in network.flows)


def indices(places: Places) -> Indices:
    return {stage: np.array([int(name[1:]) for name in names]) for stage, names in places.items()}


# -- latencies -----------------------------------------------------------------------------------------


def slices(wide: WideNetwork, count: int, seed: int) -> Iterator[Matrix]:
    """Return the latencies of links by slice, some chunks at a time; pairs in different regions stall."""
    rng = np.random.default_rng(seed)
    one, two = np.triu_indices(len(wide.regions), 1)
    apart = np.array([wide.regions[a] != wide.regions[b] for a, b in zip(one, two, strict=True)])
    pairs = int(apart.sum())
    for begin in range(0, count, CHUNK * BATCH):
        chunks = -(-min(CHUNK * BATCH, count - begin) // CHUNK)
        factors = np.ones((chunks * CHUNK, len(one)))
        drawn = stalls(CHUNK, pairs * chunks, rng).reshape(CHUNK, chunks, pairs)
        factors[:, apart] = drawn.transpose(1, 0, 2).reshape(chunks * CHUNK, pairs)
        delays = np.zeros((chunks * CHUNK, *wide.usual.shape))
        delays[:, one, two] = wide.usual[one, two] * factors
        delays[:, two, one] = delays[:, one, two]
        yield delays[: count - begin]


def latencies(delays: Matrix, at: Indices) -> Matrix:
    """Return the latency of each tuple at each application: (slice, tuple, application)."""

    def passed(ready: Matrix, one: str, two: str) -> Matrix:
        """Each replica of a stage takes the first copy of each tuple."""
        links = delays[:, at[one][:, None], at[two][None]]
        found: Matrix = (ready[:, :, :, None] + links[:, None]).min(axis=2)
        return found

    servers = np.arange(SERVERS)
    unions = [f"union {kind}" for kind in KINDS]
    joined = np.maximum(
        *(passed(delays[:, servers[:, None], at[each][None]], each, "join") for each in unions)
    )
    found = []
    for number in range(APPLICATIONS):
        stage = f"filter {number}"
        found.append(passed(passed(joined, "join", stage), stage, f"application {number}")[:, :, 0])
    return np.stack(found, axis=2)


@dataclass
class Spread:
    """The distribution of latencies, as a histogram."""

    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Spread:
        return cls(np.zeros(len(EDGES), dtype=np.int64))

    def add(self, values: Matrix) -> None:
        self.counts += np.bincount(
            np.searchsorted(EDGES, values.ravel(), side="left"), minlength=len(EDGES) + 1
        )[: len(EDGES)]

    def quantile(self, share: float) -> float:
        reached = self.counts.cumsum() >= share * self.counts.sum()
        return float(EDGES[int(reached.argmax())])

    def above(self, limit_s: float) -> float:
        """The share of tuples that take longer."""
        at = int(np.searchsorted(EDGES, limit_s, side="right"))
        return float(self.counts[at:].sum() / self.counts.sum())


# -- the figures ---------------------------------------------------------------------------------------


def figure_3(*, small: bool) -> Iterator[Figure]:
    """Three hours at one application: per tuple, and means of ten minutes, with 1, 2 and 3 replicas."""
    _, wide = query(1)
    delays = np.concatenate([*slices(wide, THREE_HOURS[small], 3)])
    variances = []
    for degree in DEGREES[:3]:
        values = latencies(delays, indices(min_cost(1, degree)))[:, :, 0]
        means = [
            float(each.mean()) for each in np.array_split(values, max(2, int(len(values) * STEP_S) // 600))
        ]
        variances.append(float(values.var()))
        about = f"Fig. 3, {degree} replica{'s' * (degree > 1)}"
        yield Figure(f"{about}: mean", float(values.mean()), "s")
        yield Figure(f"{about}: variance", variances[-1], "s²", "1 replica", variances[-1] / variances[0])
        yield Figure(f"{about}: highest mean of ten minutes", max(means), "s")
        yield Figure(f"{about}: spread of the means of ten minutes", statistics.pstdev(means), "s")
    checked(variances == sorted(variances, reverse=True) or small, "the variance falls with replicas")


def figure_4(*, small: bool) -> Iterator[Figure]:
    """A month on several fleets: the distribution of latencies with random and with min-cost placement."""
    fleets, degrees = range(1, 1 + FLEETS[small]), DEGREES[:: 2 if small else 1]
    spreads = {(name, degree): Spread.empty() for name in PLACEMENTS for degree in degrees}
    for seed in fleets:
        for delays in slices(query(seed)[1], MONTH[small] // len(fleets), seed):
            for (name, degree), spread in spreads.items():
                spread.add(latencies(delays, indices(PLACEMENTS[name](seed, degree))))
    for (name, degree), spread in spreads.items():
        about, place = f"Fig. 4, {name}, {degree} replicas", PLACEMENTS[name]
        for what, measure in (("bandwidth", bandwidth), ("network cost", total_cost)):
            ratios = [
                measure(network, place(seed, degree)) / measure(network, place(seed, 1))
                for seed in fleets
                for network in (query(seed)[0],)
            ]
            yield Figure(f"{about}: {what}", statistics.mean(ratios), "x 1 replica")
        for limit_s in LIMITS_S:
            if share := spread.above(limit_s):
                yield Figure(f"{about}: share above {limit_s:g} s", 100 * share, "%")
        yield Figure(f"{about}: p99.9", spread.quantile(0.999), "s")
    for degree in degrees[1:]:
        better = sum(
            spreads["min-cost", degree].above(each) <= spreads["random", degree].above(each)
            for each in LIMITS_S
        )
        yield Figure(
            f"Fig. 4, {degree} replicas: min-cost is not above random", better, f"of {len(LIMITS_S)}"
        )


def matrices(*, small: bool) -> Iterator[Figure]:
    """PlanetLab's matrices without stalls, 3 replicas: latencies of many fleets."""
    fleets = 4 if small else 340
    for name, place in PLACEMENTS.items():
        values = [
            latencies(query(seed)[1].usual[None], indices(place(seed, 3))) for seed in range(1, fleets + 1)
        ]
        over, longest = (
            sum(int((each > 1).sum()) for each in values),
            max(float(each.max()) for each in values),
        )
        about = f"PlanetLab without stalls, {name}, 3 replicas, {sum(each.size for each in values)} tuples"
        yield Figure(f"{about}: longest", longest, "s")
        skipped = "" if over else "0: none"
        yield Figure(f"{about}: above 1 s", over, "tuples", skipped=skipped)


PLACEMENTS: dict[str, Callable[[int, int], Places]] = {"random": at_random, "min-cost": min_cost}

PARTS: dict[str, Callable[..., Iterator[Figure]]] = {
    "figure_3": figure_3,
    "figure_4": figure_4,
    "matrices": matrices,
}

"""Which streams of replicas are of use (Fig. 5): static, pruned, and pruned with revival.

Owns the search for the cheapest set of streams whose p99.9 is within 5 % of that with all streams. Algorithm
6 (`control.planning.pruning`) discards streams one group after the other; each prefix of its steps is a
candidate. Weights are the ranks in which copies arrive. With revival, a replica whose inputs of a stage are
all later than usual gets the discarded stream of least latency, after a request, and keeps it for
`REVIVED_S`.

Paper: Hwang et al. V-B, V-C, VI-F. Deviations: "later than usual" is the mean and four deviations instead of
10 s; a discarded replica is not revived; sources and applications are fewer, because the time of Algorithm 6
grows with the square of the streams.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Figure, checked
from benchmarks.wide_model import KINDS, min_cost, query, slices
from benchmarks.wide_traces import STEP_S, Matrix
from elfmesh.control.planning.deployment import Network, Places
from elfmesh.control.planning.pruning import Replica, ReplicaStream, pruned

SOURCES, APPLICATIONS = 10, 4
KEPT, WITHIN, REVIVED_S = 2, 1.05, 300.0
LAG_S_MIN, DEVIATIONS = 0.05, 4
SHARE = 0.999
SLICES = {False: 6000, True: 400}
FLEETS = {False: 3, True: 1}


class Graph:
    """The replicated query of one fleet, with the streams that are live."""

    def __init__(self, seed: int, degree: int) -> None:
        network, self.wide = query(seed)
        self.places: Places = min_cost(seed, degree)
        names = [each.name for each in network.servers]
        self.sources = random.Random(f"sources/{seed}").sample(names, SOURCES)
        self.network: Network = network
        self.usual = self.wide.usual
        flows = [(f"union {kind}", "join", float(SOURCES)) for kind in KINDS]
        for number in range(APPLICATIONS):
            flows += [("join", f"filter {number}", float(SOURCES))]
            flows += [(f"filter {number}", f"application {number}", float(SOURCES))]
        self.flows = flows

    def streams(self, weights: dict[tuple[Replica, Replica], float]) -> list[ReplicaStream]:
        """Return all streams, each source by itself, because no other source has its tuples."""
        pairs = [
            ((f"{kind} {source}", source), (f"union {kind}", union), 1.0)
            for kind in KINDS
            for source in self.sources
            for union in self.places[f"union {kind}"]
        ]
        pairs += [
            ((one, before), (two, after), rate)
            for one, two, rate in self.flows
            for before in self.places[one]
            for after in self.places[two]
        ]
        return [
            ReplicaStream(
                one,
                two,
                rate * float(self.usual[_at(one[1]), _at(two[1])]),
                weights.get((one, two), 0.0),
            )
            for one, two, rate in pairs
        ]


def _at(server: str) -> int:
    return int(server[1:])


@dataclass
class Passage:
    """What one evaluation gives.

    Attributes:
        latencies: (slice, tuple, application).
        revived: cost of revived streams, as the mean over time.
        weights: the mean of 1/rank of the copies of each stream.
    """

    latencies: Matrix
    revived: float
    weights: dict[tuple[Replica, Replica], float]


def evaluated(
    graph: Graph, delays: Matrix, gone: frozenset[tuple[Replica, Replica]], *, revives: bool
) -> Passage:
    """Return the latencies of all tuples while some streams are discarded."""
    weights: dict[tuple[Replica, Replica], float] = {}
    revived = 0.0

    def passed(ready: Matrix, one: str, two: str, rate: float) -> Matrix:
        nonlocal revived
        before, after = graph.places[one], graph.places[two]
        a, b = [[*map(_at, each)] for each in (before, after)]
        links = delays[:, a][:, :, b]
        live = np.array([[((one, x), (two, y)) not in gone for y in after] for x in before])
        copies = ready[:, :, :, None] + links[:, None]
        arrivals = np.where(live, copies, np.inf)
        ranks = arrivals.argsort(axis=2).argsort(axis=2) + 1
        mean = np.where(live, (1 / ranks).mean(axis=(0, 1)), 0.0)
        for x, row in zip(before, mean, strict=True):
            weights.update({((one, x), (two, y)): float(each) for y, each in zip(after, row, strict=True)})
        first: Matrix = arrivals.min(axis=2)
        if not revives:
            return first
        for at in range(len(after)):
            idle = [i for i in range(len(before)) if not live[i, at] and np.isfinite(ready[:, :, i]).all()]
            if not idle or not live[:, at].any():
                continue
            spare = min(idle, key=lambda i: float(graph.usual[a[i], b[at]]))
            lag = first[:, :, at]
            late_s = max(LAG_S_MIN, float(lag.mean() + DEVIATIONS * np.abs(lag - lag.mean()).mean()))
            is_late: NDArray[np.bool_] = np.any(lag > late_s, axis=1)
            kept = _kept(is_late, round(REVIVED_S / STEP_S))
            asked = np.maximum(ready[:, :, spare], late_s + delays[:, b[at], a[spare]][:, None])
            begins = np.where(kept[:, None], ready[:, :, spare], asked)
            with_it = begins + delays[:, a[spare], b[at]][:, None]
            first[:, :, at] = np.where((is_late | kept)[:, None], np.minimum(lag, with_it), lag)
            revived += rate * float(graph.usual[a[spare], b[at]]) * float((is_late | kept).mean())
        return first

    sides = []
    for kind in KINDS:
        unions = graph.places[f"union {kind}"]
        ready: Matrix = delays[:, [*map(_at, graph.sources)]][:, :, [*map(_at, unions)]]
        whole = [
            all(((f"{kind} {s}", s), (f"union {kind}", union)) not in gone for s in graph.sources)
            for union in unions
        ]
        ready = np.where(np.array(whole), ready, np.inf)
        sides.append(passed(ready, f"union {kind}", "join", float(SOURCES)))
    joined = np.maximum(*sides)
    found = []
    for number in range(APPLICATIONS):
        stage = f"filter {number}"
        filtered = passed(joined, "join", stage, float(SOURCES))
        found.append(passed(filtered, stage, f"application {number}", float(SOURCES))[:, :, 0])
    return Passage(np.stack(found, axis=2), revived, weights)


def _kept(late: NDArray[np.bool_], slices_: int) -> NDArray[np.bool_]:
    """Return the slices that follow a late one closely enough that the revived stream still runs."""
    sums = np.concatenate([[0], late.cumsum()])
    at = np.arange(len(late))
    found: NDArray[np.bool_] = sums[at] - sums[np.maximum(0, at - slices_)] > 0
    return found


def figure_5(*, small: bool) -> Iterator[Figure]:
    """The network cost of what is needed for the same p99.9, by degree of replication."""
    for degree in (3,) if small else (2, 3, 4, 5):
        static, pruned_to, revived_to, useful, late = 0.0, 0.0, 0.0, 0.0, []
        for seed in range(1, 1 + FLEETS[small]):
            one = sum(each.cost for each in Graph(seed, 1).streams({}))
            graph = Graph(seed, degree)
            delays = np.concatenate([*slices(graph.wide, SLICES[small], seed)])
            whole = evaluated(graph, delays, frozenset(), revives=False)
            limit_s = WITHIN * float(np.quantile(whole.latencies, SHARE))
            streams = graph.streams(whole.weights)
            steps = pruned(streams, 0.0, min(KEPT, degree)).discarded
            total = sum(each.cost for each in streams)
            static += total / one
            for revives in (False, True):
                count, cost, reached_s = _cheapest(graph, delays, steps, total, limit_s, revives=revives)
                if revives:
                    revived_to += cost / one
                else:
                    pruned_to += cost / one
                    useful += 1 - sum(map(len, steps[:count])) / len(streams)
                late.append(reached_s / limit_s * WITHIN)
        fleets = FLEETS[small]
        about = f"Fig. 5, {degree} replicas"
        yield Figure(f"{about}, static: network cost", static / fleets, "x 1 replica")
        yield Figure(
            f"{about}, pruned: network cost", pruned_to / fleets, "x 1 replica", "static", pruned_to / static
        )
        yield Figure(
            f"{about}, pruned with revival: network cost",
            revived_to / fleets,
            "x 1 replica",
            "static",
            revived_to / static,
        )
        yield Figure(f"{about}, pruned: share of the streams", 100 * useful / fleets, "%")
        yield Figure(f"{about}: greatest p99.9", max(late), "x static")
        checked(max(late) <= WITHIN, "the p99.9 stays within its limit")


def _cheapest(
    graph: Graph,
    delays: Matrix,
    steps: tuple[tuple[ReplicaStream, ...], ...],
    total: float,
    limit_s: float,
    *,
    revives: bool,
) -> tuple[int, float, float]:
    """Return the most steps whose p99.9 is within the limit, the cost that is left, and this p99.9."""
    best = 0, total, 0.0
    for count in range(len(steps) + 1):
        gone = frozenset((each.source, each.destination) for step in steps[:count] for each in step)
        found = evaluated(graph, delays, gone, revives=revives)
        reached_s = float(np.quantile(found.latencies, SHARE))
        cost = total - sum(each.cost for step in steps[:count] for each in step) + found.revived
        if reached_s <= limit_s and cost <= best[1]:
            best = count, cost, reached_s
    return best


PARTS = {"figure_5": figure_5}

"""Which streams between replicas are worth least for what they cost: Algorithm 6.

While all streams together cost more than a limit, the group with the least utility for its cost is discarded:
a stream, and what becomes useless without it. Pure functions.

The utility of a stream is its share of the weights at its destination, times the utility of that replica.
The utility of a reader is 1, that of another replica the sum over its outputs. Weights are 1, 1/2, 1/3, ...
by the order in which streams deliver a record.

Invariants: each stage keeps at least the given number of replicas, or all if it has fewer. Each replica that
stays has an output, and an input of each stage before it, and no reader loses its last input of a stage. The
outcome says whether the limit is kept.

Paper: Hwang et al. V-B. Deviations: the paper does not define `need_to_remove`; here a
replica is removed if no output, or no stream of one of its input stages, is left. Without weights, shares are
equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elfmesh.control.planning.deployment import Network, Places

Replica = tuple[str, str]
"""A stage, and the server of one of its replicas."""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaStream:
    """A stream between two replicas; `weight` is what it has earned by arriving early."""

    source: Replica
    destination: Replica
    cost: float
    weight: float = 0.0


@dataclass(frozen=True)
class Pruned:
    """The streams that are kept, and those that were discarded.

    Attributes:
        kept: in their order.
        discarded: a tuple for each step: a stream, and the streams that are useless without it.
        reached: whether the kept streams cost at most the limit.
    """

    kept: tuple[ReplicaStream, ...]
    discarded: tuple[tuple[ReplicaStream, ...], ...]
    reached: bool


def streams_of(
    network: Network, places: Places, weights: Mapping[tuple[Replica, Replica], float]
) -> tuple[ReplicaStream, ...]:
    """Return the streams between all replicas of a deployment."""
    return tuple(
        ReplicaStream(
            (flow.source, one),
            (flow.destination, other),
            flow.rate * network.between(one, other),
            weights.get(((flow.source, one), (flow.destination, other)), 0.0),
        )
        for flow in network.flows
        for one in places[flow.source]
        for other in places[flow.destination]
    )


class _Graph:
    """The streams that are left."""

    def __init__(self, streams: Iterable[ReplicaStream], kept_min: int) -> None:
        self.streams, self._kept_min = tuple(sorted(streams)), kept_min
        self._into: dict[Replica, list[ReplicaStream]] = {}
        self._out_of: dict[Replica, list[ReplicaStream]] = {}
        for each in self.streams:
            self._into.setdefault(each.destination, []).append(each)
            self._out_of.setdefault(each.source, []).append(each)

    def utilities(self) -> dict[ReplicaStream, float]:
        found: dict[Replica, float] = {}

        def of_replica(replica: Replica) -> float:
            if replica not in found:
                out = self._out_of.get(replica, ())
                found[replica] = sum(map(of_stream, out)) if out else 1.0
            return found[replica]

        def of_stream(stream: ReplicaStream) -> float:
            group = self._group(stream)
            total = sum(each.weight for each in group)
            share = stream.weight / total if total else 1 / len(group)
            return share * of_replica(stream.destination)

        return {each: of_stream(each) for each in self.streams}

    def _group(self, stream: ReplicaStream) -> list[ReplicaStream]:
        """The streams from one stage into a replica, which all deliver the same records."""
        return [each for each in self._into[stream.destination] if each.source[0] == stream.source[0]]

    def dependents(
        self, stream: ReplicaStream, gone: frozenset[ReplicaStream] = frozenset()
    ) -> frozenset[ReplicaStream]:
        """Return what must go with a stream, itself included; empty: it must stay."""
        gone |= {stream}
        gone = self._useless(stream.source, gone)
        return self._useless(stream.destination, gone) if gone else gone

    def _useless(self, replica: Replica, gone: frozenset[ReplicaStream]) -> frozenset[ReplicaStream]:
        """Add the streams of a replica to `gone` if it is useless without those; empty: it must stay."""
        into, out = self._into.get(replica, []), self._out_of.get(replica, [])
        if not into:
            return gone  # a source
        if not out:
            return frozenset() if self._is_useless(replica, gone) else gone
        replicas, left = self._replicas(replica[0], gone)
        if left < min(self._kept_min, replicas):
            return frozenset()
        if self._is_useless(replica, gone):
            for each in (*into, *out):
                if each not in gone:
                    gone = self.dependents(each, gone)
                    if not gone:
                        return gone
        return gone

    def _is_useless(self, replica: Replica, gone: frozenset[ReplicaStream]) -> bool:
        into, out = self._into.get(replica, []), self._out_of.get(replica, [])
        stages = {each.source[0] for each in into}
        left = {each.source[0] for each in into if each not in gone}
        return left != stages or (bool(out) and all(each in gone for each in out))

    def _replicas(self, stage: str, gone: frozenset[ReplicaStream]) -> tuple[int, int]:
        """Return how many replicas a stage has, and how many of them are of use without `gone`."""
        replicas = {replica for replica in (*self._into, *self._out_of) if replica[0] == stage}
        return len(replicas), sum(not self._is_useless(each, gone) for each in replicas)


def utilities(streams: Iterable[ReplicaStream]) -> dict[ReplicaStream, float]:
    """Return the utility of each stream."""
    return _Graph(streams, 0).utilities()


def pruned(streams: Iterable[ReplicaStream], limit: float, kept_min: int) -> Pruned:
    """Return the streams that stay, so that they cost at most `limit` together, if that is possible.

    Args:
        streams: all streams between replicas.
        limit: of their cost.
        kept_min: how many replicas each stage between sources and readers keeps, if it has as many.
    """
    kept, discarded = tuple(sorted(streams)), list[tuple[ReplicaStream, ...]]()
    while sum(each.cost for each in kept) > limit:
        graph = _Graph(kept, kept_min)
        worth = graph.utilities()
        groups = {found for each in kept if (found := graph.dependents(each))}

        def ratio(
            group: frozenset[ReplicaStream], worth: Mapping[ReplicaStream, float] = worth
        ) -> tuple[float, list[ReplicaStream]]:
            cost = sum(each.cost for each in group)
            return sum(worth[each] for each in group) / cost if cost else float("inf"), sorted(group)

        least = min(groups, key=ratio, default=None)
        if least is None:
            return Pruned(kept, tuple(discarded), reached=False)
        discarded.append(tuple(sorted(least)))
        kept = tuple(each for each in kept if each not in least)
    return Pruned(kept, tuple(discarded), reached=True)

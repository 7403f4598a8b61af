"""The round trips between the members of a job, as the members have measured them.

Owns what the members report, for as long as it counts, and the latencies that follow for pairs that no member
has measured. A latency ranks agents and decides no row.

Invariants: only values in (0, 10 s] count, and only between members, so that a hostile report changes the
place of its sender at most. A latency is half of the shortest round trip that either end reports, because a
longer one is caused by load. An unmeasured pair has the median of its two groups, else of all pairs.

Paper: Hwang et al. V-A. Deviation: measured round trips instead of coordinates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from statistics import median

TRIP_US_MAX = 10_000_000
FRESH_S = 300.0
"""For how long a report counts. A member reports every 30 s."""

Trips = Iterable[tuple[bytes, int]]


class RoundTrips:
    """The reports of one job's members, by agent."""

    def __init__(self) -> None:
        self._reports: dict[bytes, tuple[float, dict[bytes, float]]] = {}

    def report(self, agent: bytes, trips: Trips, now: float) -> None:
        """A member reports its round trips to others, in microseconds."""
        found = {peer: us / 2e6 for peer, us in trips if 0 < us <= TRIP_US_MAX and peer != agent}
        if found:
            self._reports[agent] = now, found

    def retain(self, members: Collection[bytes], now: float) -> None:
        """Forget agents that are no members, and reports that are old."""
        kept = self._reports.items()
        self._reports = {agent: each for agent, each in kept if agent in members and now - each[0] <= FRESH_S}

    def between(self, one: bytes, other: bytes) -> float | None:
        """Return the measured latency one way in seconds; None if neither end reports it."""
        if one == other:
            return 0.0
        ends = ((one, other), (other, one))
        found = [self._reports[each][1].get(peer) for each, peer in ends if each in self._reports]
        return min((each for each in found if each is not None), default=None)

    def has_reported(self, agent: bytes) -> bool:
        return agent in self._reports

    def latencies(self, groups: Mapping[bytes, str]) -> Latencies | None:
        """Return the latencies between agents, whose groups are given; None if no pair is measured."""
        agents = sorted(groups)
        measured: dict[tuple[bytes, bytes], float] = {}
        apart: dict[tuple[str, str], list[float]] = {}
        for at, one in enumerate(agents):
            for other in agents[at + 1 :]:
                if (seconds := self.between(one, other)) is not None:
                    measured[one, other] = seconds
                    apart.setdefault(_ordered(groups[one], groups[other]), []).append(seconds)
        if not measured:
            return None
        usual = {pair: median(each) for pair, each in apart.items()}
        return Latencies(groups, measured, usual, median(measured.values()))


class Latencies:
    """Seconds one way between agents: measured ones, and estimates for the others."""

    def __init__(
        self,
        groups: Mapping[bytes, str],
        measured: Mapping[tuple[bytes, bytes], float],
        usual: Mapping[tuple[str, str], float],
        other_s: float,
    ) -> None:
        self._groups, self._measured, self._usual, self._other_s = groups, measured, usual, other_s

    def between(self, one: bytes, other: bytes) -> float:
        if one == other:
            return 0.0
        pair = (one, other) if one < other else (other, one)
        if (known := self._measured.get(pair)) is not None:
            return known
        return self._usual.get(_ordered(self._groups[one], self._groups[other]), self._other_s)

    def is_measured(self, one: bytes, other: bytes) -> bool:
        return one == other or ((one, other) if one < other else (other, one)) in self._measured


def _ordered(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)

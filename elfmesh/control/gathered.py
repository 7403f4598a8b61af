"""What the root of one tree has collected for the open intervals of a job.

Owns segments laid out by interval: who is covered, and the parts with their counts and payloads. Knows no
roster and no deadline.

Invariant: the parts of one (interval, attempt) have disjoint coverages, so that merging all of them counts
every contribution once (D-7). A higher attempt stands beside the lower one until it covers as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from sortedcontainers import SortedDict

from elfmesh.control.cover import END, Cover
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.messages import Segment


@dataclass(frozen=True, slots=True)
class GatheredPart:
    """Contributions of the agents in `mask` to one interval, merged."""

    mask: int
    counts: tuple[int, ...]
    payload: bytes


class Gathered:
    """The collection of one tree from interval `start` on."""

    def __init__(self, start: int) -> None:
        self._covers: dict[int, Cover] = {0: Cover(start)}
        self._parts: SortedDict[int, dict[int, list[GatheredPart]]] = SortedDict()
        self._start = start
        self.nbytes = 0

    def add(self, segment: Segment, payloads: tuple[bytes, ...]) -> list[int]:
        """Take a segment in; return the intervals whose parts overlap without one containing the other.

        Repetitions change nothing. A part that contains parts already here replaces them.
        """
        mask = bits_of(segment.coverage)
        cover = self._covers.setdefault(segment.attempt, Cover(self._start))
        conflicts = []
        for entry, payload in zip(segment.entries, payloads, strict=True):
            if entry.interval < self._start:
                continue
            attempts = self._parts.setdefault(entry.interval, {})
            parts = attempts.setdefault(segment.attempt, [])
            new = GatheredPart(mask, entry.counts, payload)
            met = [part for part in parts if part.mask & mask]
            if any(part.mask & mask == mask for part in met):
                continue
            if any(part.mask & ~mask for part in met):
                conflicts.append(entry.interval)
                continue
            self.nbytes += len(payload) - sum(len(part.payload) for part in met)
            attempts[segment.attempt] = [part for part in parts if part not in met] + [new]
        begin = segment.start
        for conflict in conflicts:
            cover.add(begin, conflict, mask)
            begin = conflict + 1
        cover.add(begin, segment.stop, mask)
        return conflicts

    def add_everywhere(self, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        """Take what one agent contributed into all attempts: it will not answer to the later ones."""
        for attempt in sorted(self._covers):
            self.add(replace(segment, attempt=attempt), payloads)

    def fail(self, start: int, stop: int, mask: int) -> None:
        """Nothing will come from the agents in `mask` for this range: treat them as covered, empty."""
        for cover in self._covers.values():
            cover.add(start, stop, mask)

    def covered(self, interval: int) -> int:
        """The agents that are inside an interval."""
        return self._covers[self._attempt(interval)].at(interval)

    def everywhere(self, interval: int) -> int:
        """The agents that are inside an interval in every attempt that anything has come from."""
        inside = self._covers[0].at(interval)
        for cover in self._covers.values():
            inside &= cover.at(interval) or -1
        return inside

    def until(self, interval: int) -> int:
        """One past the run of intervals around `interval` that are covered alike."""
        return min((cover.until(interval) for cover in self._covers.values()), default=END)

    def attempt(self, interval: int) -> int:
        """The highest attempt that anything has come from for an interval."""
        return max(attempt for attempt, cover in self._covers.items() if attempt == 0 or cover.at(interval))

    def frontier(self, number: int) -> int:
        """First open interval that lacks this agent."""
        return max(cover.frontier(number, self._start) for cover in self._covers.values())

    def parts(self, interval: int) -> list[GatheredPart]:
        """The parts to merge for an interval."""
        attempts: dict[int, list[GatheredPart]] = self._parts.get(interval, {})
        return attempts.get(self._attempt(interval), [])

    def first(self, start: int, stop: int) -> int | None:
        """The first interval in [start, stop) that somebody has records for."""
        return next(iter(self._parts.irange(start, stop, inclusive=(True, False))), None)

    def drop_below(self, interval: int) -> None:
        """Forget everything below an interval: it is closed."""
        self._start = max(interval, self._start)
        while self._parts and self._parts.keys()[0] < interval:
            attempts = self._parts.popitem(0)[1]
            self.nbytes -= sum(len(part.payload) for parts in attempts.values() for part in parts)
        for attempt, cover in list(self._covers.items()):
            cover.drop_below(interval)
            if attempt and cover.until(interval) == END and not cover.at(interval):
                del self._covers[attempt]

    def _attempt(self, interval: int) -> int:
        best = 0
        for attempt in sorted(self._covers):
            have = self._covers[best].at(interval)
            if self._covers[attempt].at(interval) & have == have:
                best = attempt
        return best


def covered_in_all(trees: Sequence[Gathered], interval: int, *, every_attempt: bool = False) -> int:
    """The agents that are inside an interval in every tree of a job."""
    covered = -1
    for tree in trees:
        covered &= tree.everywhere(interval) if every_attempt else tree.covered(interval)
    return covered

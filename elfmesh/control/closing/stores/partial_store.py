"""Partial store: the segments that the root of one tree has collected for the open intervals of a job.

Owns, by interval, the covered members and the parts with their counts and payloads. Does not depend on the
roster or a deadline.

Invariants: the parts of one (interval, attempt) have disjoint coverages, so that a merge of all parts counts
each contribution once (D-7). A higher attempt is used when it covers at least the members of the lower one,
in the same or newer revisions. Attempts below 0 are what sites hold of the roster epoch before, one attempt
for each site; of attempts that cover the same members, the highest is used. A revision replaces an earlier
one in a part of its own; if the earlier one is merged with others, the interval has to be collected again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from sortedcontainers import SortedDict

from elfmesh.interval_map import END, CoverMap
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import PartialOverlap, bits_of
from elfmesh.srt.messages import Segment

HELD_BYTES_MAX = 256 << 20
"""Maximum size of the payloads of waiting intervals; beyond it no interval waits for a member."""


@dataclass(frozen=True, slots=True)
class PartitionStore:
    """Merged contributions of the agents in `mask` to one interval; `rev` above 1: of one agent."""

    mask: int
    counts: tuple[int, ...]
    payload: bytes
    rev: int = 1

    @safeguard("disjoint-merge:root")
    def judge(self, new: PartitionStore) -> PartialOverlap:
        if new.rev > 1 and self.mask == new.mask:
            return PartialOverlap.NEW if self.rev < new.rev else PartialOverlap.DUPLICATE
        if new.rev == 1 and self.mask & new.mask == new.mask:
            return PartialOverlap.DUPLICATE
        return (
            PartialOverlap.OVERLAP
            if new.rev > 1 or self.rev > 1 or self.mask & ~new.mask
            else PartialOverlap.NEW
        )


class PartialStore:
    """The collection of one tree from interval `start` on."""

    def __init__(self, start: int) -> None:
        self._covers: dict[int, CoverMap] = {0: CoverMap(start)}
        self._parts: SortedDict[int, dict[int, list[PartitionStore]]] = SortedDict()
        self._newest: SortedDict[int, dict[int, int]] = SortedDict()
        self._start = start
        self.nbytes = 0

    def add(self, segment: Segment, payloads: tuple[bytes, ...]) -> list[int]:
        """Add a segment; return the intervals with overlapping parts of which none contains the other.

        A repeated segment changes nothing. A part that contains or revises stored parts replaces them.
        """
        mask = bits_of(segment.coverage)
        cover = self._covers.setdefault(segment.attempt, CoverMap(self._start))
        conflicts = []
        for entry, payload in zip(segment.entries, payloads, strict=True):
            if entry.interval < self._start:
                continue
            attempts = self._parts.setdefault(entry.interval, {})
            parts = attempts.setdefault(segment.attempt, [])
            new = PartitionStore(mask, entry.counts, payload, entry.rev)
            if entry.rev > 1:
                newest = self._newest.setdefault(entry.interval, {})
                newest[mask] = max(entry.rev, newest.get(mask, 1))
            met = [part for part in parts if part.mask & mask]
            verdicts = [part.judge(new) for part in met]
            if PartialOverlap.DUPLICATE in verdicts:
                continue
            if PartialOverlap.OVERLAP in verdicts:
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
        """Add a segment of a dead agent to all attempts, because it does not contribute to later ones."""
        for attempt in sorted(self._covers):
            self.add(replace(segment, attempt=attempt), payloads)

    def fail(self, start: int, stop: int, mask: int) -> None:
        """Treat the agents in `mask` as covered without records, because their contributions failed."""
        for cover in self._covers.values():
            cover.add(start, stop, mask)

    def covered(self, interval: int) -> int:
        return self._covers[self._attempt(interval)].at(interval)

    def held(self, interval: int) -> int:
        """Return the agents of which something is used for an interval."""
        return self.covered(interval)

    def everywhere(self, interval: int) -> int:
        """Return the agents that are inside an interval in every attempt of this term with contributions."""
        inside = self._covers[0].at(interval)
        for attempt, cover in self._covers.items():
            inside &= (cover.at(interval) or -1) if attempt > 0 else -1
        return inside

    def until(self, interval: int) -> int:
        """Return one past the run of intervals from `interval` on with the same coverage."""
        return min((cover.until(interval) for cover in self._covers.values()), default=END)

    def attempt(self, interval: int) -> int:
        return max(attempt for attempt, cover in self._covers.items() if attempt == 0 or cover.at(interval))

    def newest(self, interval: int) -> int:
        """Return the agents that are inside the highest attempt with contributions."""
        return self._covers[self.attempt(interval)].at(interval)

    def frontier(self, number: int) -> int:
        """Return the first open interval without this agent."""
        return max(cover.frontier(number, self._start) for cover in self._covers.values())

    def parts(self, interval: int) -> list[PartitionStore]:
        attempts: dict[int, list[PartitionStore]] = self._parts.get(interval, {})
        return attempts.get(self._attempt(interval), [])

    def parts_without(self, interval: int, out: int) -> list[PartitionStore] | None:
        """Return the parts of an interval without the members `out`; None if a merge contains them."""
        parts = self.parts(interval)
        if not any(part.mask & out for part in parts):
            return parts
        best = self._attempt(interval)
        needed = self._covers[best].at(interval) & ~out
        attempts: dict[int, list[PartitionStore]] = self._parts[interval]
        for attempt in sorted(self._covers, reverse=True):
            found = attempts.get(attempt, [])
            if self._covers[attempt].at(interval) & needed != needed or any(
                part.mask & out and part.mask & ~out for part in found
            ):
                continue
            kept = [part for part in found if not part.mask & out]
            inside = _revs(kept)
            if all(inside.get(bit, 1) >= rev for bit, rev in _revs(parts).items() if bit & needed):
                return kept
        return None

    def revs(self, interval: int) -> dict[int, int]:
        """Return the revisions above 1 that are inside, by the bit of their agent."""
        return _revs(self.parts(interval)) if interval in self._newest else {}

    def is_revised(self, interval: int) -> bool:
        return interval in self._newest

    def newest_revs(self, interval: int) -> dict[int, int]:
        """Return the newest revisions above 1 that have arrived, by the bit of their agent."""
        found: dict[int, int] = self._newest.get(interval, {})
        return found

    def is_inherited(self, interval: int) -> bool:
        """Return whether the parts of an interval are what a site holds of the roster epoch before."""
        return self._attempt(interval) < 0

    def lacks_revision(self, interval: int) -> bool:
        """Return whether a newer revision of a contribution that is inside has arrived."""
        newest = self.newest_revs(interval)
        inside = self.revs(interval)
        return any(rev > inside.get(bit, 1) for bit, rev in newest.items())

    def first(self, start: int, stop: int) -> int | None:
        """Return the first interval in [start, stop) for which a member has records."""
        return next(iter(self._parts.irange(start, stop, inclusive=(True, False))), None)

    def drop_below(self, interval: int) -> None:
        self._start = max(interval, self._start)
        while self._parts and self._parts.keys()[0] < interval:
            attempts = self._parts.popitem(0)[1]
            self.nbytes -= sum(len(part.payload) for parts in attempts.values() for part in parts)
        while self._newest and self._newest.keys()[0] < interval:
            self._newest.popitem(0)
        for attempt, cover in list(self._covers.items()):
            cover.drop_below(interval)
            if attempt and cover.until(interval) == END and not cover.at(interval):
                del self._covers[attempt]

    def _attempt(self, interval: int) -> int:
        best = 0
        for attempt in sorted(self._covers):
            have = self._covers[best].at(interval)
            if self._covers[attempt].at(interval) & have == have and self._is_as_new(interval, attempt, best):
                best = attempt
        return best

    def _is_as_new(self, interval: int, attempt: int, other: int) -> bool:
        if interval not in self._newest:
            return True
        attempts: dict[int, list[PartitionStore]] = self._parts.get(interval, {})
        mine, theirs = _revs(attempts.get(attempt, [])), _revs(attempts.get(other, []))
        return all(mine.get(bit, 1) >= rev for bit, rev in theirs.items())


def _revs(parts: Sequence[PartitionStore]) -> dict[int, int]:
    return {part.mask: part.rev for part in parts if part.rev > 1}

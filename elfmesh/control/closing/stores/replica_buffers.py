"""Replica buffers: what the trees of one partition have collected, in a partial store for each copy.

The groups of a job may have several trees each, the copies, numbered from 0 (`PATHS n, m`). All copies of a
group get the same contributions and merge them differently. Owns which parts an interval uses.

Invariants: the parts of a copy go into the store of that copy, because an overlap of two copies is no
conflict and is never collected again. The parts that are used have disjoint coverages (D-7): parts that
overlap, in one copy or between copies, form a cluster, and of each cluster those of one copy are used, the
copy that covers most of it. Groups are disjoint, so each group is taken from the copy that is complete first.
Copies are not mixed in an interval that is revised, or of which a copy is inherited; then one copy is used
for all members.

Paper: Hwang et al. IV-B, Algorithm 1 (the first of several copies counts). Deviation: a contribution is
identified by its member, interval and revision instead of by its content, so a copy may begin at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from elfmesh.control.closing.stores.partial_store import PartialStore, PartitionStore
from elfmesh.safeguards import safeguard
from elfmesh.srt.messages import Segment


class IntervalStore(Protocol):
    """What is collected of the open intervals of one partition: of one tree, or of several copies."""

    def covered(self, interval: int) -> int: ...

    def held(self, interval: int) -> int: ...

    def everywhere(self, interval: int) -> int: ...

    def until(self, interval: int) -> int: ...

    def attempt(self, interval: int) -> int: ...

    def newest(self, interval: int) -> int: ...

    def frontier(self, number: int) -> int: ...

    def parts(self, interval: int) -> list[PartitionStore]: ...

    def parts_without(self, interval: int, out: int) -> list[PartitionStore] | None: ...

    def revs(self, interval: int) -> dict[int, int]: ...

    def is_revised(self, interval: int) -> bool: ...

    def lacks_revision(self, interval: int) -> bool: ...

    def first(self, start: int, stop: int) -> int | None: ...

    def add_everywhere(self, segment: Segment, payloads: tuple[bytes, ...]) -> None: ...


Content = tuple[int, list[PartitionStore]]
"""Covered members as a bit set, and disjoint parts."""


class ReplicaBuffers:
    """The collection of one partition from interval `start` on.

    Args:
        copies: number of trees of each group.
    """

    def __init__(self, start: int, copies: int = 1) -> None:
        self.copies = tuple(PartialStore(start) for _ in range(copies))

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.copies)

    def add(self, segment: Segment, payloads: tuple[bytes, ...], copy: int = 0) -> list[int]:
        """Add a segment of a copy; return the intervals with overlapping parts inside this copy."""
        return self._of(copy).add(segment, payloads)

    @safeguard("copies-are-kept-apart")
    def _of(self, copy: int) -> PartialStore:
        """Return the store of a copy. A tree of an earlier layout, with more copies, is the first one."""
        return self.copies[copy if copy < len(self.copies) else 0]

    def add_everywhere(self, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        """Add a segment of a dead agent to all copies, because it contributes to no tree."""
        for each in self.copies:
            each.add_everywhere(segment, payloads)

    def fail(self, start: int, stop: int, mask: int) -> None:
        """Treat the agents in `mask` as covered without records in all copies."""
        for each in self.copies:
            each.fail(start, stop, mask)

    def covered(self, interval: int) -> int:
        """Return the members inside the parts that an interval uses."""
        return self._content(interval)[0]

    def held(self, interval: int) -> int:
        """Return the members of which any copy has something."""
        return _union(each.held(interval) for each in self.copies)

    def everywhere(self, interval: int) -> int:
        """Return the agents that are inside an interval in every attempt of a copy."""
        return _union(each.everywhere(interval) for each in self.copies)

    def until(self, interval: int) -> int:
        return min(each.until(interval) for each in self.copies)

    def attempt(self, interval: int) -> int:
        return max(each.attempt(interval) for each in self.copies)

    def newest(self, interval: int) -> int:
        """Return the agents that are inside the highest attempt of a copy."""
        return _union(each.newest(interval) for each in self.copies)

    def frontier(self, number: int) -> int:
        """Return the first open interval without this agent."""
        return max(each.frontier(number) for each in self.copies)

    def parts(self, interval: int) -> list[PartitionStore]:
        return self._content(interval)[1]

    def parts_without(self, interval: int, out: int) -> list[PartitionStore] | None:
        """Return the parts of an interval without the members `out`; None if a merge contains them."""
        covered, parts = self._content(interval)
        if not any(part.mask & out for part in parts):
            return parts
        needed = covered & ~out
        if self._may_mix(interval):
            inside, found = _mixed([_without(*each, out) for each in self._contents(interval)])
            if inside & needed == needed:
                return found
        for each in sorted(self.copies, key=lambda each: self._rank(each, interval)):
            if each.covered(interval) & needed == needed:
                kept = each.parts_without(interval, out)
                if kept is not None:
                    return kept
        return None

    def revs(self, interval: int) -> dict[int, int]:
        """Return the revisions above 1 that are inside, by the bit of their agent."""
        return {part.mask: part.rev for part in self.parts(interval) if part.rev > 1}

    def is_revised(self, interval: int) -> bool:
        return any(each.is_revised(interval) for each in self.copies)

    def lacks_revision(self, interval: int) -> bool:
        """Return whether a newer revision of a contribution that is inside has arrived in any copy."""
        if not self.is_revised(interval):
            return False
        inside = self.revs(interval)
        newest = [each.newest_revs(interval) for each in self.copies]
        return any(rev > inside.get(bit, 1) for each in newest for bit, rev in each.items())

    def first(self, start: int, stop: int) -> int | None:
        """Return the first interval in [start, stop) for which a member has records."""
        found = (each.first(start, stop) for each in self.copies)
        return min((each for each in found if each is not None), default=None)

    def drop_below(self, interval: int) -> None:
        for each in self.copies:
            each.drop_below(interval)

    def _content(self, interval: int) -> Content:
        """Return the members inside an interval, and the parts with their contributions."""
        if self._may_mix(interval):
            return _mixed(self._contents(interval))
        best = self.copies[0]
        if len(self.copies) > 1:
            best = min(self.copies, key=lambda each: self._rank(each, interval))
        return best.covered(interval), best.parts(interval)

    def _contents(self, interval: int) -> list[Content]:
        return [(each.covered(interval), each.parts(interval)) for each in self.copies]

    def _may_mix(self, interval: int) -> bool:
        return len(self.copies) > 1 and not any(
            each.is_revised(interval) or each.is_inherited(interval) for each in self.copies
        )

    def _rank(self, copy: PartialStore, interval: int) -> tuple[int, int]:
        """Order the copies of an interval that uses one: most members first, then the newest revisions."""
        return -copy.covered(interval).bit_count(), -sum(copy.revs(interval).values())


def _union(masks: Iterable[int]) -> int:
    found = 0
    for each in masks:
        found |= each
    return found


def _without(covered: int, parts: list[PartitionStore], out: int) -> Content:
    """Return a copy without the parts that contain any of the members `out`."""
    gone = out | _union(part.mask for part in parts if part.mask & out)
    return covered & ~gone, [part for part in parts if not part.mask & gone]


def _best(contents: Sequence[Content], cluster: int) -> Content:
    """Return the copy that has most members of a cluster; of equal ones, the first."""
    return max(contents, key=lambda each: (each[0] & cluster).bit_count())


def _mixed(contents: Sequence[Content]) -> Content:
    """Return the greatest content that takes each cluster of overlapping parts from one copy."""
    total = _union(covered for covered, _ in contents)
    for covered, parts in contents:
        if covered == total:
            return covered, parts
    clusters: list[int] = []
    for mask in (part.mask for _, parts in contents for part in parts):
        met = [each for each in clusters if each & mask]
        clusters = [each for each in clusters if not each & mask] + [mask | _union(met)]
    inside, used = total & ~_union(clusters), []  # the others are covered without records

    for cluster in clusters:
        covered, parts = _best(contents, cluster)
        inside |= covered & cluster
        used += [part for part in parts if part.mask & cluster]
    return inside, used


def covered_in_all(trees: Sequence[IntervalStore], interval: int, *, every_attempt: bool = False) -> int:
    covered = -1
    for tree in trees:
        covered &= tree.everywhere(interval) if every_attempt else tree.covered(interval)
    return covered


def covered_in_any(trees: Sequence[IntervalStore], interval: int) -> int:
    """Return the agents of which any tree holds something for an interval."""
    held = 0
    for tree in trees:
        held |= tree.held(interval)
    return held


def newest_in_all(trees: Sequence[IntervalStore], interval: int) -> int:
    """Return the agents that are inside the newest attempt of an interval in every tree of a job."""
    covered = -1
    for tree in trees:
        covered &= tree.newest(interval)
    return covered


def first_in_any(trees: Sequence[IntervalStore], start: int, stop: int) -> int | None:
    """Return the first interval in [start, stop) for which any tree has records."""
    found = [tree.first(start, stop) for tree in trees]
    return min((first for first in found if first is not None), default=None)


def frontier_in_all(trees: Sequence[IntervalStore], number: int) -> int:
    """Return the first open interval without a member in any tree."""
    return min(tree.frontier(number) for tree in trees)

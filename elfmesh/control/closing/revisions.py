"""Repeated collection of intervals with revisions or torn members.

A revision cannot replace an earlier one inside a merge. A torn member, which is inside some of a job's trees
and not inside others, cannot be removed from a merge. In both cases the trees collect the interval again,
each contribution separately. Owns which intervals wait for that and how long. Closes no interval.

Invariants: an interval waits at most `WAIT_S` from when it could be closed. A tree is asked at most once per
`AGAIN_S`. After a time-out the record names the revision that is inside, or the member that is not.

Paper: none. Guarantees D-1, D-7, D-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sortedcontainers import SortedDict

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.ports import Failed
from elfmesh.control.closing.stores.partial_store import PartitionStore
from elfmesh.control.closing.stores.replica_buffers import IntervalStore
from elfmesh.control.context import Alarm
from elfmesh.safeguards import safeguard

GATHER_S = 0.1
"""Time for which revisions are collected into one request."""

AGAIN_S = 1.0
REPAIR_S = 5.0
"""Minimum pause between two repairs: collections of a range that members have sent and that has not
arrived."""

WAIT_S = 2.0
"""A collection takes one way down the tree and one up; a member that does not contribute within it has
left."""


class Revising:
    """Repeated collections of one job.

    Args:
        trees: partial store of each tree of the job.
        failed: contributions that could not be merged.
    """

    def __init__(self, term: ClosingTerm, trees: Sequence[IntervalStore], failed: Failed) -> None:
        self._context, self._trees, self._failed = term.context, trees, failed
        self._recollect, self._again = term.leader.recollect, term.leader.close_ready
        self._repaired_at: dict[int, float] = {}
        self._wanted: list[SortedDict[int, None]] = [SortedDict() for _ in trees]
        self._asked_at = [float("-inf")] * len(trees)
        self._waiting: SortedDict[int, float] = SortedDict()
        self._alarm = Alarm(self._context, self._woken)

    def wants(self, partition: int, interval: int) -> None:
        self._wanted[partition][interval] = None
        self._alarm.wake(self._context.now + GATHER_S)

    @safeguard("repair:root")
    def repair(self, start: int, stop: int, partition: int) -> None:
        """Collect a range from a tree again, unless the pause after the last repair is not over."""
        if self._context.now - self._repaired_at.get(partition, float("-inf")) >= REPAIR_S:
            self._repaired_at[partition] = self._context.now
            self._context.stats["control.recollections"] += 1
            self._recollect(start, stop, partition, self._trees[partition].attempt(start) + 1)

    def torn(self, interval: int) -> int:
        """Return the members of which only some partitions are inside, because a contribution is atomic."""
        return 0 if len(self._trees) == 1 else uneven(self._trees, interval) | self._failed.at(interval)[0]

    def is_settled(self, interval: int) -> bool:
        """Return whether an interval has its newest revisions and no torn members, or has waited `WAIT_S`."""
        out = self.torn(interval)
        if not out and not any(tree.is_revised(interval) for tree in self._trees):
            return True
        late = [
            partition
            for partition, tree in enumerate(self._trees)
            if tree.lacks_revision(interval) or tree.parts_without(interval, out) is None
        ]
        if not late:
            return True
        now = self._context.now
        if interval not in self._waiting:
            self._waiting[interval] = now + WAIT_S
            for partition in late:
                self.wants(partition, interval)
        self._alarm.wake(self._waiting[interval])
        return bool(now >= self._waiting[interval])

    def drop_below(self, interval: int) -> None:
        for held in (self._waiting, *self._wanted):
            while held and held.keys()[0] < interval:
                held.popitem(0)

    def stop(self) -> None:
        self._alarm.cancel()

    def _woken(self) -> None:
        now = self._context.now
        for partition, wanted in enumerate(self._wanted):
            if wanted and now - self._asked_at[partition] < AGAIN_S:
                self._alarm.wake(self._asked_at[partition] + AGAIN_S)
            elif wanted:
                self._asked_at[partition] = now
                self._ask(partition, list(wanted))
                wanted.clear()
        if self._waiting:
            self._alarm.wake(max(self._waiting.values()[0], now + GATHER_S))
        self._again()

    def _ask(self, partition: int, intervals: list[int]) -> None:
        tree = self._trees[partition]
        start = before = intervals[0]
        for interval in [*intervals[1:], None]:
            if interval is None or interval > before + 1:
                self._context.stats["control.recollections"] += 1
                attempt = max(tree.attempt(each) for each in range(start, before + 1)) + 1
                self._recollect(start, before + 1, partition, attempt)
                start = interval if interval is not None else start
            before = interval if interval is not None else before


def uneven(trees: Sequence[IntervalStore], interval: int) -> int:
    """Return the members that are inside only some of the trees, or in different revisions."""
    covers = [tree.covered(interval) for tree in trees]
    everywhere = somewhere = covers[0]
    for cover in covers[1:]:
        everywhere &= cover
        somewhere |= cover
    revs = [tree.revs(interval) for tree in trees]
    differing = somewhere & ~everywhere
    for bit in {bit for each in revs for bit in each}:
        if len({each.get(bit, 1) for each in revs}) > 1:
            differing |= bit
    return differing


@dataclass(frozen=True, slots=True)
class Inside:
    """Content of an interval's record.

    Attributes:
        parts: parts of each tree.
        stuck: torn members that a merge contains, so that their counts are inside.
        revs: (number, revision) of the contributions that replaced an earlier one.
    """

    parts: list[list[PartitionStore]]
    stuck: int
    revs: tuple[tuple[int, int], ...]


def inside_of(trees: Sequence[IntervalStore], interval: int, torn: int) -> Inside:
    """Return the content without the torn members, except for those that a merge contains."""
    parts = []
    stuck = 0
    for partition, tree in enumerate(trees):
        without = tree.parts_without(interval, torn)
        if without is None and partition == 0:  # the first partition carries the counts
            stuck = torn & tree.covered(interval)
        parts.append(tree.parts(interval) if without is None else without)
    revs = trees[0].revs(interval)
    named = tuple((bit.bit_length() - 1, rev) for bit, rev in sorted(revs.items()) if not bit & torn & ~stuck)
    return Inside(parts, stuck, named)

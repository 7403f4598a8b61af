"""What has to be collected again before an interval can be closed as it is known: revisions and torn members.

A revision that met an earlier one inside a merge cannot replace it there; a member that is inside some of a
job's trees and not others cannot be taken out of a merge. Either way the interval is collected once more,
every contribution alone. Owns what waits for that and for how long. Closes nothing.

Invariants: nothing waits longer than `WAIT_S` from when it could be closed; no tree is asked twice within
`AGAIN_S`. What a time-out leaves behind is said in the record: the revision that is inside, or that a member
is not.

Paper: none. Guarantees D-1, D-7, D-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sortedcontainers import SortedDict

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.partial_store import PartialStore, PartitionStore
from elfmesh.control.closing.ports import Failed
from elfmesh.control.context import Timer
from elfmesh.safeguards import safeguard

GATHER_S = 0.1
"""Revisions that arrive together are one collection."""

AGAIN_S = 1.0
REPAIR_S = 5.0
"""How often a range is collected again that members say they have sent and that is not here."""

WAIT_S = 2.0
"""A collection takes a way down the tree and one up; who does not answer it has gone."""


class Revising:
    """The collections again of one job.

    Args:
        term: what the parts of the term share.
        trees: what each of its trees has collected.
        failed: what could not be merged.
    """

    def __init__(self, term: ClosingTerm, trees: Sequence[PartialStore], failed: Failed) -> None:
        self._context, self._trees, self._failed = term.context, trees, failed
        self._recollect, self._again = term.leader.recollect, term.leader.close_ready
        self._repaired_at: dict[int, float] = {}
        self._wanted: list[SortedDict[int, None]] = [SortedDict() for _ in trees]
        self._asked_at = [float("-inf")] * len(trees)
        self._waiting: SortedDict[int, float] = SortedDict()
        self._timer: Timer | None = None

    def wants(self, partition: int, interval: int) -> None:
        self._wanted[partition][interval] = None
        self._wake(self._context.now + GATHER_S)

    @safeguard("repair:root")
    def repair(self, start: int, stop: int, partition: int) -> None:
        """Ask a tree for a range again, unless it was asked a moment ago."""
        if self._context.now - self._repaired_at.get(partition, float("-inf")) >= REPAIR_S:
            self._repaired_at[partition] = self._context.now
            self._context.stats["control.recollections"] += 1
            self._recollect(start, stop, partition, self._trees[partition].attempt(start) + 1)

    def torn(self, interval: int) -> int:
        """Members of which some partitions are inside and others are not: one contribution is one thing."""
        return 0 if len(self._trees) == 1 else uneven(self._trees, interval) | self._failed.at(interval)[0]

    def is_settled(self, interval: int) -> bool:
        """Whether an interval has its newest revisions, and no torn members; or has waited for that."""
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
        self._wake(self._waiting[interval])
        return bool(now >= self._waiting[interval])

    def drop_below(self, interval: int) -> None:
        for held in (self._waiting, *self._wanted):
            while held and held.keys()[0] < interval:
                held.popitem(0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self, at: float) -> None:
        if self._timer is not None:
            if self._timer.at <= at:
                return
            self._timer.cancel()
        self._timer = self._context.after(max(at - self._context.now, 0.001), self._woken)

    def _woken(self) -> None:
        self._timer = None
        now = self._context.now
        for partition, wanted in enumerate(self._wanted):
            if wanted and now - self._asked_at[partition] < AGAIN_S:
                self._wake(self._asked_at[partition] + AGAIN_S)
            elif wanted:
                self._asked_at[partition] = now
                self._ask(partition, list(wanted))
                wanted.clear()
        if self._waiting:
            self._wake(max(self._waiting.values()[0], now + GATHER_S))
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


def uneven(trees: Sequence[PartialStore], interval: int) -> int:
    """The members that are inside some of the trees and not others, or in different revisions."""
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
    """What an interval's record is made of.

    Attributes:
        parts: of each tree.
        stuck: torn members that a merge holds, and whose counts are inside.
        revs: (number, revision) of the contributions that replaced an earlier one.
    """

    parts: list[list[PartitionStore]]
    stuck: int
    revs: tuple[tuple[int, int], ...]


def inside_of(trees: Sequence[PartialStore], interval: int, torn: int) -> Inside:
    """What is inside without the torn; where a merge holds them, they count as inside if their counts are."""
    parts = []
    stuck = 0
    for partition, tree in enumerate(trees):
        without = tree.parts_without(interval, torn)
        if without is None and partition == 0:  # counts travel in the first partition
            stuck = torn & tree.covered(interval)
        parts.append(tree.parts(interval) if without is None else without)
    revs = trees[0].revs(interval)
    named = tuple((bit.bit_length() - 1, rev) for bit, rev in sorted(revs.items()) if not bit & torn & ~stuck)
    return Inside(parts, stuck, named)

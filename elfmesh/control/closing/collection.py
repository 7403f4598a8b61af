"""Contributions of the members of a job to its open intervals.

Owns the partial stores, the frontiers of the members, the straggler policy and the repeated collections.
`MemberIntervals` decides about intervals.

Paper: ELF 3, the barrier of Figure 9, seen from the root.
"""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.copy_recovery import CopyRecovery
from elfmesh.control.closing.ports import Failed, Frontiers
from elfmesh.control.closing.progress import FrontierHistory
from elfmesh.control.closing.revisions import Revising
from elfmesh.control.closing.stores.replica_buffers import ReplicaBuffers, covered_in_all, first_in_any
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.protocol.messages_parts import PartFault
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.control.protocol.messages_standby import Prefix
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import PartsDropped
from elfmesh.srt.messages import Segment

EVERY = -1
"""All members, as a bit set."""


class Collection:
    """Collection of one job in one term.

    Args:
        term: shared state of the term.

    Attributes:
        seen: the times at which the first member passed each interval.
        trees: what has been collected of each partition of the job.
        failed: contributions that could not be merged.
        frontiers: frontiers that members have reported.
    """

    def __init__(self, term: ClosingTerm) -> None:
        self._term, self._next = term, term.start
        plan = term.plan
        self.straggler_policy = StragglerPolicy(
            term.context, term.book, plan.on_straggler, plan.deadline_s, term.leader.close_ready,
            horizon_s=plan.horizon_s,
        )  # fmt: skip
        copies, partitions = plan.copies if plan.paths else 1, term.stages[-1].manifest.partitions
        self.trees = [ReplicaBuffers(term.start, copies) for _ in range(partitions)]
        self.seen, self.frontiers, self.failed = FrontierHistory(), Frontiers(), Failed()
        self.revising = Revising(term, self.trees, self.failed)
        self.recovery = CopyRecovery(term, self.straggler_policy)
        self._resumed_at = float("-inf")

    @property
    def frontier(self) -> int | None:
        """One past the highest interval that any member has sealed; None before the first seal."""
        return self.seen.frontier

    @property
    def first(self) -> int | None:
        """The first undecided interval for which a member is known to have records, if there is one."""
        return None if self.frontier is None else first_in_any(self.trees, self._next, self.frontier)

    def missing(self) -> int:
        """Return the members (bit set) for which the first undecided interval waits."""
        return self._term.book.required(self._next) & ~covered_in_all(self.trees, self._next)

    def due_since(self, interval: int) -> float | None:
        """Return when the first member passed this interval, without a pause of the job; None: none has."""
        seen = self.seen.since(interval)
        return None if seen is None else max(seen, self._resumed_at)

    def resumed(self) -> None:
        """Restart all delays, because the pause of a job is not a delay of its members."""
        self._resumed_at = self._term.context.now
        self.straggler_policy.resumed()

    def collected(self, partition: int, segment: Segment, payloads: tuple[bytes, ...], copy: int = 0) -> None:
        """Add a segment that a tree of a partition has delivered; `copy` is the number of the tree."""
        mask = bits_of(segment.coverage)
        if any(len(entry.counts) > COUNTS_MAX for entry in segment.entries):
            self._term.context.stats["control.malformed"] += 1
            return
        if segment.stop > self._next:
            self.straggler_policy.seen(mask)
        self._term.latency_stats.arrived(mask, self.seen.since(segment.stop - 1))
        tree = self.trees[partition]
        for conflict in tree.add(segment, payloads, copy):
            if tree.is_revised(conflict):
                self.revising.wants(partition, conflict)
            else:
                self._term.context.stats["control.overlaps"] += 1
                self.revising.repair(conflict, conflict + 1, partition)
        self.passed(segment.stop, mask)

    def inherited(
        self, partition: int, site: int, segment: Segment, payloads: tuple[bytes, ...], copy: int = 0
    ) -> None:
        """Add what a site holds of the roster epoch before.

        The members contribute everything open in this term as well, so an interval that parts overlap in
        waits for them. A revision that a merge contains is collected again, as in `collected`.
        """
        tree = self.trees[partition]
        for conflict in tree.add(replace(segment, attempt=-1 - site), payloads, copy):
            if tree.is_revised(conflict):
                self.revising.wants(partition, conflict)
        self.passed(segment.stop, bits_of(segment.coverage))

    def recovered(self, copy: Keep, payload: bytes) -> None:
        """Add a copy of a dead member's contributions; the member stays dead."""
        stop = self.recovery.take(copy, payload, self._next, self.trees)
        if stop is not None:
            self.passed(stop, 1 << copy.number)

    def on_prefix(self, message: Prefix, payload: bytes) -> None:
        """Add what a standby holds of a member."""
        if news := self._term.prefixes.take(message, payload):
            self.recovery.received(news)
            self._term.leader.close_ready()

    def reported(self, number: int, frontier: int) -> None:
        self.frontiers.note(number, frontier)
        self.passed(frontier, 1 << number)

    def dropped(self, partition: int, lost: PartsDropped | PartFault) -> None:
        """Record contributions that cannot be merged: their agents are missing, the record has the reason."""
        mask, errors = bits_of(lost.coverage), self._term.errors
        errors.append(f"{', '.join(self._term.book.names(mask))}: {lost.error}")
        self.failed.add(lost.start, lost.stop, mask, errors[-1])
        self.trees[partition].fail(lost.start, lost.stop, mask)
        self._term.leader.close_ready()

    def drop_below(self, interval: int) -> None:
        self._next = interval
        for tree in self.trees:
            tree.drop_below(interval)
        self.seen.drop_below(interval)
        self.revising.drop_below(interval)
        self.failed.drop_below(interval)
        self._term.prefixes.drop_below(interval)

    def passed(self, stop: int, members: int = EVERY) -> None:
        """Handle that these members (bit set) have sealed all intervals below `stop`."""
        if self._makes_due(members):
            self.seen.passed(stop, self._term.context.now)
        self._term.leader.close_ready()

    @safeguard("sealed-ahead-is-not-due")
    def _makes_due(self, members: int) -> bool:
        """Whether the frontier of these members (bit set) says that other members should have sealed.

        A member that leaves at once has sealed its open windows before their time.
        """
        return bool(members & ~self._term.book.ahead)

"""Stragglers: how long an interval with missing members waits, and what the master requests meanwhile.

Owns the calls of the straggler policy, the questions to the copy hosts of dead members, and the flush orders.
`decisions` decides from the answers; `Closer` carries out the decision.

Paper: ELF 3, stragglers.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import LateDecision, decide_late
from elfmesh.control.closing.flush_orders import FlushOrders
from elfmesh.control.closing.revisions import REPAIR_S
from elfmesh.control.closing.stores.replica_buffers import covered_in_all, frontier_in_all
from elfmesh.control.replicas.direct_requests import PULL_S_MAX, PULL_SHARE, DirectRequests


class Stragglers:
    """Decides about the oldest open interval of one job while members are missing from it.

    Args:
        collection: contributions of the members.
        wake: schedules the next decision at a time.
    """

    def __init__(self, term: ClosingTerm, collection: Collection, wake: Callable[[float], None]) -> None:
        self._context, self._deadline_s, self._collection = term.context, term.plan.deadline_s, collection
        self._trees, self._straggler_policy = collection.trees, collection.straggler_policy
        self._wake, self._leader = wake, term.leader
        lead_s = self._straggler_policy.lead_s
        self._flush_orders = FlushOrders(term.leader.hasten, self._deadline_s, lead_s)
        about, dead_since = (term.stages[-1].manifest.job_id, term.epoch), self._straggler_policy.dead_since
        self._direct = DirectRequests(term.context, about, term.book, term.rates, dead_since)
        self._has_standbys = term.plan.standby_s is not None
        self._pull_s = min(PULL_S_MAX, PULL_SHARE * self._deadline_s)

    def decide(self, at: int, required: int, missing: int, due: float) -> LateDecision:
        """Decide about the interval `at`; while it waits, request what it lacks.

        Args:
            at: the interval.
            required: members that are expected.
            missing: expected members that are not inside.
            due: when the first member passed the interval.
        """
        now, last = self._context.now, self._collection.seen.last
        judged = self._straggler_policy.lost(required, at, self._trees) or missing
        state, again_at = self._straggler_policy.decide(
            judged, due, lambda number: frontier_in_all(self._trees, number)
        )
        lacking = missing | required & ~covered_in_all(self._trees, at, every_attempt=True)
        overdue, pull_at = now >= due + self._deadline_s, due + self._deadline_s - self._pull_s
        pull_again_at = pull_at if now < pull_at else self._direct.ask(lacking, at, self._answer_bytes(at))
        asks = state is not None or now >= pull_at
        sites_at = self._leader.request_of_sites(missing, due) if asks else pull_at
        copies_at = self._collection.recovery.ask(
            lacking, at, overdue=overdue or (self._has_standbys and now >= pull_at)
        )
        decision = decide_late(
            now=now,
            due_since=due,
            state=state,
            again_at=again_at,
            held_up=self._collection.frontiers.beyond(missing, at) or not self._flush_orders.waited(at, now),
            copies_at=max(copies_at, sites_at),
            held_bytes=sum(tree.nbytes for tree in self._trees),
        )
        if decision.state is None:
            unordered = self._collection.due_since(self._flush_orders.uncovered(at))
            again_at = min(decision.again_at, self._flush_orders.ahead(last, unordered, now))
            self._wake(min(again_at, max(pull_again_at, now + 0.001)))
            if overdue:
                self._push(at, missing, due, last)
        return decision

    def _answer_bytes(self, at: int) -> int:
        """Return what one member holds of the open intervals, as the mean of the members that are inside."""
        inside = max((tree.everywhere(at).bit_count() for tree in self._trees), default=0)
        return sum(tree.nbytes for tree in self._trees) // max(1, inside)

    def _push(self, at: int, missing: int, due: float, last: int) -> None:
        self._flush_orders.now(last, self._context.now)
        if self._context.now < due + self._deadline_s + REPAIR_S:
            return
        if self._collection.frontiers.beyond(missing, at):
            for partition in range(len(self._trees)):
                self._collection.revising.repair(at, last, partition)

    def drop_below(self, interval: int) -> None:
        self._flush_orders.drop_below(interval)

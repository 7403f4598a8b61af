"""Interval source of a job with members: the records represent their contributions.

Owns when such an interval is decided. `straggler_orders` handles missing members; `decisions` is the pure
part of the decision.

Invariants: a run of intervals with a missing member has a record that names this member, because it may have
had records for them (I3). Intervals that wait beyond the deadline have tentative records (D-9).
"""

from __future__ import annotations

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision, decide
from elfmesh.control.closing.eviction import Evictions
from elfmesh.control.closing.interval_source import OpenIntervals
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.stores.replica_buffers import covered_in_all, covered_in_any, first_in_any
from elfmesh.control.closing.straggler_orders import Stragglers
from elfmesh.control.closing.tentative_results import order_tentative
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.records import FIRST, ResultRecord, State
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.interval_map import END


class MemberIntervals:
    """The `IntervalSource` of members.

    Args:
        collection: contributions of the members.
    """

    def __init__(self, term: ClosingTerm, collection: Collection) -> None:
        self._term, self._collection, self._trees = term, collection, collection.trees
        context, policy = term.context, collection.straggler_policy
        manifests = [stage.manifest for stage in term.stages]
        self._latest = SideInput(context, manifests, term.leader.close_ready)
        self._evictions = Evictions(context, term.book, policy, term.latency_stats, term.stages)
        self._alarm = Alarm(context, term.leader.close_ready)
        self._stragglers = Stragglers(term, collection, self._alarm.set_at)
        self._maker = RecordMaker(term, collection, self._latest)
        self._noted = FIRST

    def begin(self, closer: OpenIntervals) -> None:
        self._collection.straggler_policy.begin()
        self._latest.begin()

    def waits_for(self) -> list[str]:
        return self._latest.waits_for()

    def resumed(self) -> None:
        self._collection.resumed()

    def decide(self, at: int, *, paused: bool) -> Decision | None:
        book, groups = self._term.book, self._term.open_groups
        required, stop = book.required(at), book.changes_after(at)
        if not required:
            return None if stop == END else Decision(at, stop, False, outside=book.given)
        covered = covered_in_all(self._trees, at)
        failed, border = self._collection.failed.at(at)
        versions = (stage.start for stage in self._term.stages if stage.start > at)
        stop = min(stop, border, *versions, *(tree.until(at) for tree in self._trees))
        missing = required & ~covered
        state: State = "FINAL"
        if missing:
            due = self._collection.due_since(at)
            if due is None or paused or groups.is_making:
                return None
            late = self._stragglers.decide(at, required, missing, due)
            if late.problem:
                self._term.errors.append(late.problem)
            if late.state is None:
                self._note_due(at, required, missing)
                return None
            state, stop = late.state, min(stop, self._collection.seen.last)
        prefixes = self._term.prefixes
        partly = prefixes.eligible(required, missing, covered_in_any(self._trees, at) | failed)
        found = (
            first_in_any(self._trees, at, stop),
            groups.due(at, stop, required, book.required(at - 1)),
            prefixes.first(at, stop, partly),
        )
        first = min((each for each in found if each is not None), default=None)
        # without records of its own, an interval has a record if groups end in it
        is_known = not groups.is_making or first == found[0]
        return decide(
            at,
            stop,
            first,
            state,
            settled=first is None or state == "SKIPPED" or (is_known and self._is_settled(first)),
            required=required,
            missing=missing,
            failed=failed,
            torn=0 if first is None else self._collection.revising.torn(first),
            outside=book.given & (~covered_in_all(self._trees, at) | failed),
        )

    def _note_due(self, at: int, required: int, missing: int) -> None:
        if self._noted < at:
            self._noted = at
            detail = f"{missing.bit_count()} of {required.bit_count()} agents are not in"
            self._term.context.note("due", self._term.stages[-1].manifest.job_id, at, at + 1, detail)

    def _is_settled(self, index: int) -> bool:
        return self._collection.revising.is_settled(index) and self._latest.has_read(index)

    def make(self, decision: Decision, rev: int) -> tuple[ResultRecord, Finalise | bytes]:
        index = decision.index
        record, payloads = self._maker.make(decision, rev)
        self._term.latency_stats.decided(index, self._collection.due_since(index))
        has_rows = any(payloads) or any(each.contributed for each in record.partly)
        needed = self._term.open_groups.needed(index, record.completeness)
        heavy = decision.state != "SKIPPED" and (has_rows or needed)
        return record, self._maker.order(record, payloads) if heavy else b""

    def decided(self, at: int) -> None:
        self._collection.drop_below(at)
        self._stragglers.drop_below(at)
        self._latest.closed(at)

    def wait(self, at: int, *, shows: bool) -> None:
        if shows and self._term.plan.on_straggler == "correct":
            order_tentative(self._term, self._collection, self._latest, self._maker, at)
        leader = self._term.leader
        if not leader.is_granted and self._evictions.carry_out(self._collection.frontier, at):
            leader.evicted()

    def stop(self) -> None:
        self._latest.stop()
        self._collection.revising.stop()
        self._alarm.cancel()

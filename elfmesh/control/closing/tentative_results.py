"""Early results: open intervals that wait beyond the deadline get tentative records (D-9).

Owns which intervals get a tentative record now. `Tentative` holds these records. An interval that lacks only
members that the overlay has lost, each with a prefix, does not wait for the deadline, because nothing else is
expected that its first record could contain (D-21). If one of them lives, a revision contains it.

Paper: PPA 3 ("tentative outputs", corrected later).
"""

from __future__ import annotations

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.stores.replica_buffers import covered_in_all, first_in_any
from elfmesh.control.closing.tentative import OPEN_MAX
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.interval_map import bits


def order_tentative(
    term: ClosingTerm, collection: Collection, latest: SideInput, maker: RecordMaker, at: int
) -> None:
    """Order tentative records of the intervals that wait beyond their deadline, or for lost members only.

    Args:
        term: shared state of the term; intervals of groups that span several get no tentative records.
        collection: contributions of the members.
        latest: side inputs: results of other jobs.
        maker: makes the records.
        at: the first interval that is not decided.
    """
    tentative, trees, stop = term.tentative, collection.trees, collection.frontier
    for _ in range(OPEN_MAX):  # later intervals wait until these are closed
        if stop is None or at >= stop or not tentative.has_room:
            return
        index = first_in_any(trees, at, stop)
        due = None if index is None else collection.due_since(index)
        if index is None or due is None or term.open_groups.at(index) or not latest.has_read(index):
            return
        required = term.book.required(index)
        mask = covered_in_all(trees, index) & required
        included = maker.included(index, required, required & ~mask)
        lost = [each for each in included if collection.straggler_policy.lost_since(each.number) is not None]
        waits = mask == required or required & ~mask & ~bits(each.number for each in lost)
        if waits and term.context.now < due + term.plan.deadline_s:
            tentative.alarm.wake(due + term.plan.deadline_s)
            return
        prefixes = sum(each.records for each in included)
        inside = (mask, sum(rev for tree in trees for rev in tree.revs(index).values()), prefixes)
        rev = tentative.wants(index, inside)
        if rev and term.leader.is_granted:  # otherwise votes could close it as its first revision
            term.leader.end_grant()
            return
        if rev:
            run = Decision(index, index + 1, True, required, required & ~mask, "TENTATIVE")
            record, payloads = maker.make(run, rev)
            tentative.begin(record, inside)
            term.context.emit(maker.order(record, payloads))
        at = index + 1

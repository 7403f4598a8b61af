"""Early results: open intervals that wait beyond the deadline get tentative records (D-9).

Owns which intervals get a tentative record now. `Tentative` holds these records.

Paper: PPA 3 ("tentative outputs", corrected later).
"""

from __future__ import annotations

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.partial_store import covered_in_all, first_in_any
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.tentative import OPEN_MAX
from elfmesh.control.upstream.side_input import SideInput


class EarlyResults:
    """Early results of one job.

    Args:
        term: shared state of the term; intervals with sessions get no tentative records.
        collection: contributions of the members.
        latest: side inputs: results of other jobs.
        maker: makes the records.
    """

    def __init__(
        self, term: ClosingTerm, collection: Collection, latest: SideInput, maker: RecordMaker
    ) -> None:
        self._term, self._tentative, self._sessions = term, term.tentative, term.sessions
        self._collection, self._trees = collection, collection.trees
        self._latest, self._maker = latest, maker

    def show(self, at: int, stop: int | None) -> None:
        """Order tentative records of the intervals that wait beyond their deadline.

        Args:
            at: the first interval that is not decided.
            stop: one past the highest interval that a member has sealed; None before the first seal.
        """
        context, deadline_s = self._term.context, self._term.plan.deadline_s
        for _ in range(OPEN_MAX):  # later intervals wait until these are closed
            if stop is None or at >= stop or not self._tentative.has_room:
                return
            index = first_in_any(self._trees, at, stop)
            due = None if index is None else self._collection.due_since(index)
            if index is None or due is None or self._sessions.at(index) or not self._latest.has_read(index):
                return
            if context.now < due + deadline_s:
                self._tentative.wake(due + deadline_s)
                return
            required = self._term.book.required(index)
            mask = covered_in_all(self._trees, index) & required
            inside = (mask, sum(rev for tree in self._trees for rev in tree.revs(index).values()))
            rev = self._tentative.wants(index, inside)
            if rev:
                run = Decision(index, index + 1, True, required, required & ~mask, "TENTATIVE")
                record, payloads = self._maker.make(run, rev)
                self._tentative.begin(record, inside)
                context.emit(self._maker.order(record, payloads))
            at = index + 1

"""Early results: open intervals that wait beyond the deadline are shown as they are meanwhile (D-9).

Owns which intervals get a tentative record now. `Tentative` holds these records; what an interval finally is
is decided elsewhere.

Paper: PPA 3 ("tentative outputs", corrected later).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from elfmesh.control.closing.decisions import Run
from elfmesh.control.closing.open_sessions import OpenSessions
from elfmesh.control.closing.partial_store import PartialStore, covered_in_all, first_in_any
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.tentative import OPEN_MAX, Tentative
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.upstream.side_input import SideInput


class EarlyResults:
    """Has the open intervals of one job shown.

    Args:
        context: the clock.
        deadline_s: of the job.
        book: its roster.
        trees: what each of its trees has collected.
        sessions: those that are open: their intervals are not shown.
        latest: the jobs that are read beside the members' own input.
        tentative: the records that are shown.
        maker: makes them.
        due_since: when a member was first seen beyond an interval, None if none was.
    """

    def __init__(
        self,
        context: Context,
        deadline_s: float,
        book: RosterBook,
        trees: Sequence[PartialStore],
        sessions: OpenSessions,
        latest: SideInput,
        tentative: Tentative,
        maker: RecordMaker,
        due_since: Callable[[int], float | None],
    ) -> None:
        self._context, self._deadline_s, self._book, self._trees = context, deadline_s, book, trees
        self._sessions, self._latest, self._tentative = sessions, latest, tentative
        self._maker, self._due_since = maker, due_since

    def show(self, at: int, stop: int | None, rates: Rates) -> None:
        """Have what waits beyond its deadline shown as it is; it is corrected until it is closed.

        Args:
            at: the first interval that is not decided.
            stop: one past the highest interval that a member has sealed, None before the first seal.
            rates: how many records members usually have.
        """
        for _ in range(OPEN_MAX):  # what is behind those has to wait until they are closed
            if stop is None or at >= stop or not self._tentative.has_room:
                return
            index = first_in_any(self._trees, at, stop)
            due = None if index is None else self._due_since(index)
            if index is None or due is None or self._sessions.at(index) or not self._latest.has_read(index):
                return
            if self._context.now < due + self._deadline_s:
                self._tentative.wake(due + self._deadline_s)
                return
            required = self._book.required(index)
            mask = covered_in_all(self._trees, index) & required
            inside = (mask, sum(rev for tree in self._trees for rev in tree.revs(index).values()))
            rev = self._tentative.wants(index, inside)
            if rev:
                run = Run(index, index + 1, True, required, required & ~mask, "TENTATIVE")
                record, payloads = self._maker.make(run, rev, rates)
                self._tentative.begin(record, inside)
                self._maker.finalise(record, payloads)
            at = index + 1

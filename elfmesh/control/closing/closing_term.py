"""What all parts that close the intervals of one job in one term work with.

Owns what these parts share: the job, its roster, the master around them, and what is shown of open intervals.
Decides nothing.
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.closing.latency_stats import LatencyStats
from elfmesh.control.closing.open_sessions import OpenSessions
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.closing.ports import Leader
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms

ERRORS_MAX = 10


class ClosingTerm:
    """See the module.

    Args:
        context: clock and way out.
        terms: with which the term begins.
        plan: the rules of the newest version.
        book: the roster.
        leader: the master.

    Attributes:
        start: the first interval that is not closed.
        errors: the newest faults that `describe` reports.
        rates: how many records members usually have.
        lacking: whom the decided intervals lack.
        sessions: those that are open.
        tentative: the records that are shown of open intervals.
        latency_stats: where the time of an interval goes.
    """

    def __init__(
        self, context: Context, terms: Terms, plan: JobPlan, book: RosterBook, leader: Leader
    ) -> None:
        self.context, self.plan, self.book, self.leader = context, plan, book, leader
        self.stages, self.epoch, self.start = terms.stages, terms.epoch, terms.closed
        self.errors: deque[str] = deque(maxlen=ERRORS_MAX)
        self.rates = Rates()
        self.lacking = Lacking(self.start)
        self.sessions = OpenSessions(self.stages)
        self.tentative = Tentative(context, self.epoch, leader.close_ready, leader.shown)
        self.latency_stats = LatencyStats(context)

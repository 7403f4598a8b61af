"""Shared state of the components that close the intervals of one job in one term.

Owns the references to the job, its roster and its master, and the state that several of these components read
or change. Makes no decisions.
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.latency_stats import LatencyStats
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.closing.outcomes import Lacking
from elfmesh.control.closing.ports import Leader
from elfmesh.control.closing.tentative import Tentative
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.replicas.prefix_store import PrefixStore


class ClosingTerm:
    """Shared state of one term.

    Args:
        plan: plan of the newest version.
        rates: how many records members usually have.
        errors: the newest faults that `describe` reports.

    Attributes:
        start: the first interval that was not closed at the beginning of the term.
        lacking: members that are missing from the decided intervals.
        prefixes, open_groups: what standbys have sent; groups that are open between two intervals.
        tentative, latency_stats: tentative records of open intervals; durations of the newest ones.
        accuracy: what tentative records were worth.
    """

    def __init__(
        self,
        context: Context,
        terms: Terms,
        plan: JobPlan,
        book: RosterBook,
        leader: Leader,
        rates: Rates,
        errors: deque[str],
        accuracy: TentativeAccuracy,
    ) -> None:
        self.context, self.plan, self.book, self.leader = context, plan, book, leader
        self.stages, self.start = terms.stages, terms.closed
        self.epoch, self.roster_epoch = terms.epoch, terms.roster_epoch
        self.rates, self.errors, self.accuracy = rates, errors, accuracy
        self.lacking, self.open_groups = Lacking(self.start), OpenGroups(self.stages)
        self.prefixes = PrefixStore(context, terms.stages, book)
        self.tentative = Tentative(context, self.epoch, leader.close_ready, leader.shown)
        self.early = EarlyLines(plan, self.epoch, self.tentative, leader.shown)
        self.latency_stats = LatencyStats(context)

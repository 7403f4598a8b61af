"""Leader discovery: the root of a job's tree looks for the job's master until it has found one.

Owns the pauses between terms queries, and the decision to try to lead. The control register elects the
master.

Invariants: an agent that is the root of a job's tree and does not lead the job repeats the query, unless it
knows the end of the incarnation. The next query includes the agent that was reported as the master, even if
this agent has no terms of the job, because an agent that does not lead reports this only in an answer.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.member.roots import Roots
from elfmesh.control.replicas.terms_query import TermsQuery
from elfmesh.machine import Contact
from elfmesh.overlay.events import ProbeDone

AGAIN_S = 3.0
"""Interval at which a root checks that the master of its job is alive."""

UNKNOWN_S = 30.0
"""Interval between queries about a tree of which no agent knows the job."""


class Leads(Protocol):
    """Interface of `Leadership` to leader discovery."""

    def known(self, job: bytes) -> tuple[Terms | None, int | None]:
        """Return the newest terms of a job at this agent, and the end of its copy of the results log."""
        ...

    def epoch(self, job: bytes) -> int: ...

    def leader(self, job: bytes) -> Contact | None: ...

    def leads(self, job: bytes) -> bool: ...

    def elects(self, job: bytes) -> bool: ...

    def is_dead(self, manifest: Manifest) -> bool: ...

    def take_over(self, terms: Terms) -> None:
        """Try to lead a job because the master in these terms is gone or does not lead."""
        ...


class LeaderDiscovery:
    """Leader discovery of one agent.

    Args:
        context: clock, probes, and the trees of which this agent is the root.
        leads: terms at this agent, and the attempt to lead.
        terms_query: sends queries to other agents.
        roots: receives the master of each tree.
    """

    def __init__(self, context: Context, leads: Leads, terms_query: TermsQuery, roots: Roots) -> None:
        self._context, self._leads, self._terms_query, self._roots = context, leads, terms_query, roots

    def look(self, job: bytes) -> None:
        """Query only the neighbours, which are alive; a dead master or voter would delay the answer.

        A voter tries to lead at once if the overlay has lost the master, because the register decides.
        """
        if not self._wanted(job):
            return
        terms, _ = self._leads.known(job)
        if terms is not None and self._is_voter_of_lost(terms):
            self._leads.take_over(terms)
        else:
            self._terms_query.ask(job, (), lambda *found: self._informed(*found, again=False))

    def later(self, job: bytes, pause_s: float = AGAIN_S, reported: Terms | None = None) -> None:
        """Query again after a pause, with the master and voters of `reported`, or else of the known terms."""
        self._context.after(self._context.jittered(pause_s), lambda: self._again(job, reported))

    def lost(self, agent: bytes) -> None:
        """Handle the loss of an agent: wait for none of its answers, and look for the masters that it was."""
        self._terms_query.lost(agent)
        for job in [*self._context.roots]:
            if (leader := self._leads.leader(job)) is not None and leader.id == agent:
                self.look(job)

    def _is_voter_of_lost(self, terms: Terms) -> bool:
        votes = any(each.id == self._context.me.id for each in terms.acceptors)
        is_newest = terms.epoch == self._leads.epoch(terms.manifest.job_id)
        return votes and is_newest and self._context.is_gone(terms.master.id)

    def _again(self, job: bytes, reported: Terms | None) -> None:
        if self._wanted(job):
            terms = reported or self._leads.known(job)[0]
            others = () if terms is None else (terms.master, *terms.acceptors)
            self._terms_query.ask(job, others, lambda *found: self._informed(*found, again=True))

    def _wanted(self, job: bytes) -> bool:
        if job in self._context.roots and self._leads.elects(job):
            self.later(job)
        return job in self._context.roots and not self._leads.leads(job)

    def _informed(self, job: bytes, terms: Terms | None, idle: tuple[bytes, ...], *, again: bool) -> None:
        if not self._wanted(job):
            return
        if terms is None:  # the tree has no job, or no agent that knows the job has answered in time
            self.later(job, UNKNOWN_S)
            return
        if self._leads.is_dead(terms.manifest):
            return
        lost = terms.epoch < self._leads.epoch(job)  # only the register knows the newest term
        if lost and not again:
            self.later(job)
            return
        master = terms.master.id
        if lost or master == self._context.me.id or master in idle or self._context.is_gone(master):
            self._leads.take_over(terms)
            return
        self._roots.follow(job, terms.master, terms.epoch, terms.roster_epoch)
        self._context.probe(terms.master, lambda done: self._probed(terms, done))

    def _probed(self, terms: Terms, done: ProbeDone | None) -> None:
        job = terms.manifest.job_id
        if not self._wanted(job):
            return
        if done is not None and not done.alive:
            self._leads.take_over(terms)
        else:
            self.later(job, reported=terms)

"""Looks for the master of a job whose root this agent is, until there is one.

Owns the pauses between looks. Whether to try to lead is decided here; who leads, by the control register.

Invariants: as long as this agent is the root of a job's tree and does not lead it, it looks again, but for
an incarnation whose end it knows; and the agent that was said to lead the job is asked in the next look, even
where this agent itself knows nothing of the job: who is there and does not lead can say so only if it is
asked.
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
"""How often a root whose job another agent leads looks whether that agent is still there."""

UNKNOWN_S = 30.0
"""How often the root of a tree of which no agent knows a job asks around again."""


class Leads(Protocol):
    """What this agent knows of who leads what."""

    def known(self, job: bytes) -> tuple[Terms | None, int | None]:
        """The newest terms of a job that are held here, and the end of the copy of its log."""
        ...

    def epoch(self, job: bytes) -> int: ...

    def leader(self, job: bytes) -> Contact | None: ...

    def leads(self, job: bytes) -> bool: ...

    def elects(self, job: bytes) -> bool: ...

    def is_dead(self, manifest: Manifest) -> bool: ...

    def take_over(self, terms: Terms) -> None:
        """Try to lead a job whose master of these terms is gone, or does not lead."""
        ...


class LeaderDiscovery:
    """Looks for masters.

    Args:
        context: clock, probes and the trees whose root this agent is.
        leads: what is known here, and the attempt to lead.
        terms_query: asks others.
        roots: told whom to follow.
    """

    def __init__(self, context: Context, leads: Leads, terms_query: TermsQuery, roots: Roots) -> None:
        self._context, self._leads, self._terms_query, self._roots = context, leads, terms_query, roots

    def look(self, job: bytes) -> None:
        """Ask quickly: only the neighbours, who are alive, and not the job's master and voters."""
        if self._wanted(job):
            self._terms_query.ask(job, (), lambda *found: self._informed(*found, again=False))

    def later(self, job: bytes, pause_s: float = AGAIN_S, notified: Terms | None = None) -> None:
        """Ask again after a pause, master and voters too: of the terms told last, or of those known."""
        self._context.after(self._context.jittered(pause_s), lambda: self._again(job, notified))

    def lost(self, agent: bytes) -> None:
        """The overlay has lost an agent: no answer of it is waited for, and who is to follow it looks now."""
        self._terms_query.lost(agent)
        for job in [*self._context.roots]:
            if (leader := self._leads.leader(job)) is not None and leader.id == agent:
                self.look(job)

    def _again(self, job: bytes, notified: Terms | None) -> None:
        if self._wanted(job):
            terms = notified or self._leads.known(job)[0]
            others = () if terms is None else (terms.master, *terms.acceptors)
            self._terms_query.ask(job, others, lambda *found: self._informed(*found, again=True))

    def _wanted(self, job: bytes) -> bool:
        if job in self._context.roots and self._leads.elects(job):
            self.later(job)
        return job in self._context.roots and not self._leads.leads(job)

    def _informed(self, job: bytes, terms: Terms | None, idle: tuple[bytes, ...], *, again: bool) -> None:
        if not self._wanted(job):
            return
        if terms is None:  # no job's tree, or no agent that knows the job has answered in time
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
        self._roots.follow(job, terms.master, terms.epoch)
        self._context.probe(terms.master, lambda done: self._probed(terms, done))

    def _probed(self, terms: Terms, done: ProbeDone | None) -> None:
        job = terms.manifest.job_id
        if not self._wanted(job):
            return
        if done is not None and not done.alive:
            self._leads.take_over(terms)
        else:
            self.later(job, notified=terms)

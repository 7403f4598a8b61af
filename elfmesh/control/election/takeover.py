"""How this agent takes over a job whose master is gone, does not lead, or hands the job over.

Owns the attempts to lead a job that exists, and the offers that arrive during one. The control register
decides; `leadership` makes the master of a term that was won.

Invariants: an attempt changes nothing before the register has chosen (D-4). A master that was elected and is
not the root after STILL_ROOT_S hands the job over.

Paper: ELF 2.3 ("the rendezvous node is set as the job's master").
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.election.election import Elections
from elfmesh.control.election.handover import HandoverPolicy
from elfmesh.control.election.leader_discovery import LeaderDiscovery
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.master import Master
from elfmesh.control.master.master_term import MasterTerm
from elfmesh.control.protocol.messages_succession import Handover
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.errors import QueryError
from elfmesh.srt.events import Subscribe

STILL_ROOT_S = 5.0
"""Delay after an election before the master checks that it is the root; roots may move for a moment."""


class JobHeir(Protocol):
    """Interface of `Leadership` to takeovers."""

    def lead(self, won: Won, plan: JobPlan) -> Master:
        """Make the master of a chosen term."""
        ...

    def learn(self, manifest: Manifest, lost: Lost) -> bool:
        """Learn the register's epoch and master; returns False if this incarnation is not there any more."""
        ...

    def keep(self, terms: Terms) -> None: ...

    def is_dead(self, manifest: Manifest) -> bool: ...


class Takeovers:
    """All takeovers of one agent."""

    def __init__(
        self,
        context: Context,
        heir: JobHeir,
        elections: Elections,
        discovery: LeaderDiscovery,
        succession: HandoverPolicy,
    ) -> None:
        self._context, self._heir, self._elections = context, heir, elections
        self._leader_discovery, self._succession = discovery, succession
        self._offered: dict[bytes, Terms] = {}  # handed over while an attempt of this agent was under way

    def begin(self, terms: Terms) -> None:
        """Try to lead a job because the master in these terms is gone or hands the job over."""
        try:
            plan = read_plan(terms.manifest.text)
        except QueryError:
            self._context.stats["control.malformed"] += 1
            return
        if not terms.acceptors:  # the job has no voters
            self._context.stats["control.malformed"] += 1
            self._leader_discovery.later(terms.manifest.job_id)
            return
        self._elections.take_over(terms, lambda outcome: self._elected(terms, plan, outcome))

    def on_handover(self, message: Handover) -> None:
        """Try to lead a job that its master hands over."""
        job = message.terms.manifest.job_id
        if self._heir.is_dead(message.terms.manifest):
            return
        held, giver = message.terms.closed, message.terms.master.id
        self._context.note("offered", job, held, held + 1, peer=giver)
        if self._elections.is_running(job):
            self._offered[job] = message.terms
            return
        self._context.emit(Subscribe(job))
        self._heir.keep(message.terms)  # requests are forwarded to the old master until this agent is elected
        self.begin(message.terms)

    def settled(self, job: bytes) -> Terms | None:
        """End an attempt; returns the terms that were handed over during it."""
        return self._offered.pop(job, None)

    def _elected(self, terms: Terms, plan: JobPlan, outcome: Won | Lost) -> None:
        job = terms.manifest.job_id
        offered = self.settled(job)
        if isinstance(outcome, Lost):
            self._context.stats["control.not_elected"] += 1
            if offered is not None and offered.epoch > terms.epoch:  # the winner hands the job over
                self.begin(offered)
                return
            goes_on = outcome.open or self._heir.learn(terms.manifest, outcome)
            if not outcome.open and goes_on:
                self._heir.keep(outcome.terms or terms)
            if goes_on:
                self._leader_discovery.later(job)
            return
        self._context.stats["control.taken_over"] += 1
        term = self._heir.lead(outcome, plan).term
        held = term.terms.closed
        self._context.note("leads", job, held, held + 1, f"epoch {term.epoch}")
        term.take_over()
        self._context.after(STILL_ROOT_S, lambda: self._still_root(term))

    def _still_root(self, term: MasterTerm) -> None:
        if term.is_open and not term.quiesce.handing_over and term.job not in self._context.roots:
            self._succession.begin(term)

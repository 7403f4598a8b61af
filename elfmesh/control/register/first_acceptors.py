"""First acceptors: the voters of a new job, and whether enough agents are alive to create its register.

Owns this decision and its terms queries. Creates no register.

Invariants: an agent creates a register only after it has joined, and after a majority of the known agents
near the job, including those that are away, has answered. Otherwise the job's register could be at the silent
agents, and two registers would have two masters (D-4). An agent that has met no other agent is a fleet of
one.

If terms of the job are known, its voters are those in the terms, whether they are alive or not. If a vote on
the end of the job is known, its voters continue with the register if a majority of them is alive. Otherwise
the voters are the nearest known agents. They include an agent that has been away for a short time, so that
all agents that create a job choose the same voters. They exclude an agent that has lost its votes, because
other voters of the same job share a voter with every majority without it. If no voter is left, the agent
votes alone. If the job had epochs before, these voters begin it in the next generation, because a vote on its
end has a ballot of the earlier register, and could outrank a new value when its agent becomes a voter.

Not covered: a job that no answering agent has ever known begins in the first generation.

Paper: CASPaxos (Rystsov 2018) assumes that the first acceptors are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.register.members import GONE_S
from elfmesh.control.register.registers import Registers
from elfmesh.control.replicas.known_peers import MET_MAX, KnownPeers
from elfmesh.control.replicas.terms_query import ALL_NEAR, Answers, TermsQuery
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

NOT_JOINED = "this agent has not joined the others yet; ask again soon"

SILENT = "most of the agents known near the job do not answer: a job of that name may live with them"

FEW_VOTERS = f"most of the agents that would vote on the job are away; after {GONE_S:.0f} s others do"

TRIES = 3
"""Number of queries before a client is refused because agents do not answer."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a survey about a job.

    Attributes:
        terms: the newest terms that an agent reported; None if no agent knows the job.
        acceptors: voters of a new register; empty if none may be created.
        problem: why none may be created, for display.
        renewed: whether the job begins in the next generation, because other agents voted on its end.
    """

    terms: Terms | None
    acceptors: tuple[Contact, ...] = ()
    problem: str = ""
    renewed: bool = False


class FirstAcceptors:
    """Decides whether this agent may create registers.

    Args:
        registers: registers of this agent, with the number of voters.
        terms_query: queries the neighbours of a job.
        is_dead: returns whether an incarnation is known to have ended.
        epoch: returns the highest known epoch of a job.
    """

    def __init__(
        self,
        context: Context,
        registers: Registers,
        terms_query: TermsQuery,
        is_dead: Callable[[Manifest], bool],
        epoch: Callable[[bytes], int],
    ) -> None:
        self._context, self._registers, self._terms_query = context, registers, terms_query
        self._is_dead, self._epoch = is_dead, epoch
        self.known_peers = KnownPeers(context)

    def survey(
        self, job: bytes, then: Callable[[Survey], None], tries: int = TRIES, more: tuple[Contact, ...] = ()
    ) -> None:
        """Query what other agents, and those in `more`, know of a job and its epochs."""
        if self._context.joined_at == float("-inf"):
            then(Survey(None, problem=NOT_JOINED))
            return
        asked = (*self.known_peers.nearest(job, ALL_NEAR), *more)

        def received(terms: Terms | None, answers: Answers) -> None:
            unasked = self._unasked(job, answers, asked)
            if unasked:
                self.survey(job, then, tries, (*more, *unasked))
                return
            found = self._judge(job, terms, answers)
            if found.problem and tries > 1:
                self.survey(job, then, tries - 1, more)
            else:
                then(found)

        self._terms_query.ask_all(job, asked, received)

    @safeguard("end-asks-all")
    def _unasked(self, job: bytes, answers: Answers, asked: tuple[Contact, ...]) -> tuple[Contact, ...]:
        """Return the voters on the end of a job that were not asked, because other agents are nearer now."""
        known = {each.id for each in (*asked, *answers.received.values())}
        return tuple(each for each in self._ended(job, answers) if each.id not in known)

    def _judge(self, job: bytes, terms: Terms | None, answers: Answers) -> Survey:
        if terms is not None and terms.acceptors and not self._is_dead(terms.manifest):
            return Survey(terms, terms.acceptors)
        for contact in answers.received.values():
            self.known_peers.answered(contact)
        there = {self._context.me.id, *answers.received}
        near = self.known_peers.nearest(job, ALL_NEAR)
        if not _most(near, there):
            return self._refused(terms, SILENT)
        ended = self._ended(job, answers)
        if _most(ended, {each.id for each in ended if each.id in there and self.may_vote(each)}):
            return Survey(terms, ended)
        met = self.known_peers.nearest(job, MET_MAX)
        recent = [each for each in met if each.id in there or self.known_peers.away_s(each.id) < GONE_S]
        if _most(ended, {each.id for each in recent if self.may_vote(each)}):
            return self._refused(terms, FEW_VOTERS)
        nearest = tuple(each for each in recent if each in near and self.may_vote(each))
        acceptors = self._registers.voters(nearest or (self._context.me,))
        if not _most(acceptors, there):
            return self._refused(terms, FEW_VOTERS)
        return Survey(terms, acceptors, renewed=self._epoch(job) > 0)

    @safeguard("voters-of-the-end")
    def _ended(self, job: bytes, answers: Answers) -> tuple[Contact, ...]:
        """Return the voters on the end of a job, from the newest vote on it; empty if none is known."""
        own = self._registers.acceptors.over(job)
        known = [*answers.ended, *(() if own is None else (own,))]
        newest = max(known, key=lambda value: (value.epoch, value.incarnation), default=None)
        return () if newest is None else newest.acceptors

    def may_vote(self, contact: Contact) -> bool:
        """Return whether an agent may be a first voter; one that has lost its votes may have voted before."""
        if contact.id == self._context.me.id:
            return self._registers.acceptors.lost.loss is None
        return contact.id not in self._terms_query.lost_votes

    def _refused(self, terms: Terms | None, problem: str) -> Survey:
        self._context.stats["control.not_founded"] += 1
        return Survey(terms, problem=problem)


def _most(agents: list[Contact] | tuple[Contact, ...], there: set[bytes]) -> bool:
    return 2 * sum(contact.id in there for contact in agents) > len(agents)

"""Who votes first on a new job, and whether enough agents are there to found its register.

Owns that judgement, and the questions it is made by. Registers nothing.

Invariants: no register is founded by an agent that has not joined, nor unless a majority of the agents known
near the job, those that are away included, has said what it knows: the job's register may be with the others,
and two registers would be two masters (D-4). Who has met nobody is a fleet of one. Where terms of the job are
known, those vote whom they name, whether they are there or not. Else the voters are the nearest of the known;
who has been away for a short time only is one of them, so that all who found a job name the same ones. Who
has lost its votes is none of them: other voters of the same job share one with every majority that is without
it. An agent of which that leaves nobody votes alone.

Paper: CASPaxos (Rystsov 2018) takes the first acceptors for given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.register.desk import Registers
from elfmesh.control.register.members import GONE_S
from elfmesh.control.replicas.known_peers import KnownPeers
from elfmesh.control.replicas.terms_query import ALL_NEAR, TermsQuery
from elfmesh.machine import Contact

NOT_JOINED = "this agent has not joined the others yet; ask again soon"

SILENT = "most of the agents known near the job do not answer: a job of that name may live with them"

FEW_VOTERS = f"most of the agents that would vote on the job are away; after {GONE_S:.0f} s others do"

TRIES = 3
"""How often those who are silent are asked, before a client is refused."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a job.

    Attributes:
        terms: the newest that anybody told, None if nobody knows the job.
        acceptors: who shall vote if it is founded; empty if it must not be.
        problem: why it must not be, for people.
    """

    terms: Terms | None
    acceptors: tuple[Contact, ...] = ()
    problem: str = ""


class FirstAcceptors:
    """Judges whether this agent may found registers.

    Args:
        context: the clock.
        registers: how many shall vote.
        inquiry: asks the neighbours of a job.
        is_dead: whether an incarnation is known to be over.
    """

    def __init__(
        self, context: Context, registers: Registers, inquiry: TermsQuery, is_dead: Callable[[Manifest], bool]
    ) -> None:
        self._context, self._registers, self._inquiry, self._is_dead = context, registers, inquiry, is_dead
        self.acquaintances = KnownPeers(context)

    def survey(self, job: bytes, then: Callable[[Survey], None], tries: int = TRIES) -> None:
        """Hear what is known of a job, and how high its epochs were."""

        def heard(terms: Terms | None, answered: dict[bytes, Contact]) -> None:
            found = self._judge(job, terms, answered)
            if found.problem and tries > 1:
                self.survey(job, then, tries - 1)
            else:
                then(found)

        if self._context.joined_at == float("-inf"):
            then(Survey(None, problem=NOT_JOINED))
        else:
            self._inquiry.ask_all(job, tuple(self.acquaintances.nearest(job, ALL_NEAR)), heard)

    def _judge(self, job: bytes, terms: Terms | None, answered: dict[bytes, Contact]) -> Survey:
        if terms is not None and terms.acceptors and not self._is_dead(terms.manifest):
            return Survey(terms, terms.acceptors)
        for contact in answered.values():
            self.acquaintances.answered(contact)
        there = {self._context.me.id, *answered}
        near = self.acquaintances.nearest(job, ALL_NEAR)
        recent = [each for each in near if each.id in there or self.acquaintances.away_s(each.id) < GONE_S]
        acceptors = self._registers.voters(tuple(filter(self.may_vote, recent)) or (self._context.me,))
        if not _most(near, there):
            return self._refused(terms, SILENT)
        if not _most(acceptors, there):
            return self._refused(terms, FEW_VOTERS)
        return Survey(terms, acceptors)

    def may_vote(self, contact: Contact) -> bool:
        """Whether an agent votes first on a job: one that has lost its votes may have voted on it already."""
        if contact.id == self._context.me.id:
            return self._registers.acceptors.lost.loss is None
        return contact.id not in self._inquiry.lost_votes

    def _refused(self, terms: Terms | None, problem: str) -> Survey:
        self._context.stats["control.not_founded"] += 1
        return Survey(terms, problem=problem)


def _most(agents: list[Contact] | tuple[Contact, ...], there: set[bytes]) -> bool:
    return 2 * sum(contact.id in there for contact in agents) > len(agents)

"""The control registers of an agent: those in which it votes, and those that it changes.

Owns the agent's acceptors and proposers, and dispatches their messages.

Invariant: this agent uses each ballot once, because a new proposer continues the counter of the forgotten
ones, and `boot` differs between boots. Only proposers of jobs that this agent does not lead are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.control.context import Context
from elfmesh.control.protocol.fences import Handlers
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Chosen,
    Conflict,
    CumulativeVote,
    Outdated,
    Prepare,
    Promised,
)
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.custody import Custody
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.vote_counts import VoteCounts
from elfmesh.control.register.votes import Votes
from elfmesh.machine import Contact

ACCEPTORS = 3
"""Number of voters of a job in a fleet that has as many: one of three may be away, two of five."""

BOOT_BITS = 62

IDLE_MAX = 64
"""Maximum number of proposers of jobs that this agent does not lead, for reports about failed attempts."""


class Registers:
    """All control registers of one agent.

    Args:
        custody: state of jobs at this agent.
        acceptors: number of voters of a job; odd.
        leads: returns whether this agent leads a job or tries to.
    """

    def __init__(
        self,
        context: Context,
        custody: Custody,
        acceptors: int = ACCEPTORS,
        leads: Callable[[bytes], bool] = lambda job: False,
    ) -> None:
        if acceptors < 1 or acceptors % 2 == 0:
            raise ValueError(f"an odd number of agents votes, not {acceptors}")
        self._context, self._leads, self.wanted = context, leads, acceptors
        self.acceptors = Acceptors(context, custody)
        self.votes = Votes(context, self.acceptors, custody)
        self.accepted: Callable[[bytes], None] = lambda job: None
        """Called when this agent may have accepted another value of a job's register."""
        self._boot = context.rng.getrandbits(BOOT_BITS)
        self._proposers: dict[bytes, Proposer] = {}
        self._counter = 0
        self.counts = VoteCounts(context)

    def proposer(self, job: bytes, acceptors: tuple[Contact, ...]) -> Proposer:
        known = self._proposers.get(job)
        if known is None:
            self._forget_idle()
            own = partial(self.acceptors.own, job)
            known = Proposer(self._context, job, acceptors, self._boot, own, self._counter, self.counts.seen)
            self._proposers[job] = known
        elif known.idle:
            known.ask(acceptors)
        return known

    def _forget_idle(self) -> None:
        idle = [job for job, each in self._proposers.items() if each.idle and not self._leads(job)]
        for job in idle[: max(len(idle) - IDLE_MAX, 0)]:
            self._counter = max(self._counter, self._proposers.pop(job).counter)

    def voters(self, nearest: tuple[Contact, ...]) -> tuple[Contact, ...]:
        """Return the voters of a new job, from the agents closest to it; a small fleet has one voter."""
        return nearest[: self.wanted] if len(nearest) >= self.wanted else nearest[:1]

    def _is_outdated(self, sender: Contact, votes: int) -> bool:
        seen = self.counts.newer(sender, votes)
        if seen is None:
            return False
        self._context.stats["control.votes_outdated"] += 1
        self._context.send(sender, Outdated(seen.boot, seen.votes))
        return True

    def handlers(self) -> Handlers:
        acceptors = self.acceptors
        return {
            Prepare: self.on_prepare,
            Accept: self.on_accept,
            Outdated: lambda sender, message, payload: acceptors.on_outdated(message),
            Promised: self.on_promised,
            Chosen: lambda sender, message, payload: acceptors.on_chosen(message),
            Accepted: self.on_accepted,
            CumulativeVote: self.on_cumulative_vote,
            Conflict: self.on_conflict,
        }

    def on_prepare(self, sender: Contact, message: Prepare, payload: bytes) -> None:
        self.acceptors.on_outdated(message)
        self.acceptors.on_prepare(sender, message)

    def on_accept(self, sender: Contact, message: Accept, payload: bytes) -> None:
        self.acceptors.on_outdated(message)
        self.acceptors.on_accept(sender, message, payload)
        self.votes.accepted(message.job)
        self.accepted(message.job)

    def on_promised(self, sender: Contact, message: Promised, payload: bytes) -> None:
        if not self._is_outdated(sender, message.votes) and (proposer := self._waiting(message.job)):
            proposer.on_promised(sender, message, payload)

    def on_accepted(self, sender: Contact, message: Accepted, payload: bytes) -> None:
        if not self._is_outdated(sender, message.votes) and (proposer := self._waiting(message.job)):
            proposer.on_accepted(sender, message)

    def on_cumulative_vote(self, sender: Contact, message: CumulativeVote, payload: bytes) -> None:
        if not self._is_outdated(sender, message.votes):
            self.votes.on_cumulative_vote(sender, message, payload)

    def on_conflict(self, sender: Contact, message: Conflict, payload: bytes) -> None:
        if proposer := self._waiting(message.job):
            proposer.on_conflict(sender, message)

    def _waiting(self, job: bytes) -> Proposer | None:
        proposer = self._proposers.get(job)
        if proposer is None:
            self._context.stats["control.stray_votes"] += 1
        return proposer

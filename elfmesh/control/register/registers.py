"""The control registers an agent has to do with: where it votes, and which it changes.

Owns the agent's acceptors and proposers and hands them their messages.

Invariant: no ballot of this agent is ever used twice: a proposer counts on where those that are forgotten
have stopped, and `boot` tells its lives apart. Forgotten are those of jobs that this agent does not lead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.context import Context
from elfmesh.control.protocol.fences import Handlers
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Conflict,
    Outdated,
    Prepare,
    Promised,
)
from elfmesh.control.register.acceptor import Acceptors, Custody
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.vote_counts import VoteCounts
from elfmesh.machine import Contact

ACCEPTORS = 3
"""How many agents vote on a job where there are as many: one of three may be away, two of five."""

BOOT_BITS = 62

IDLE_MAX = 64
"""Proposers that are kept of jobs that are not led here: an attempt that failed is told about for a while."""


class Registers:
    """All control registers of one agent.

    Args:
        context: clock and way out.
        custody: what this agent holds of jobs.
        acceptors: how many shall vote on a job; odd.
        leads: whether this agent leads a job, or is about to.
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
        self._boot = context.rng.getrandbits(BOOT_BITS)
        self._proposers: dict[bytes, Proposer] = {}
        self._counter = 0
        self.counts = VoteCounts(context)

    def proposer(self, job: bytes, acceptors: tuple[Contact, ...]) -> Proposer:
        known = self._proposers.get(job)
        if known is None:
            self._forget_idle()
            seen = partial(self._promised, job)
            known = Proposer(self._context, job, acceptors, self._boot, seen, self._counter, self.counts.seen)
            self._proposers[job] = known
        elif known.idle:
            known.ask(acceptors)
        return known

    def _promised(self, job: bytes) -> Ballot:
        return self.acceptors.vote(job).promised

    def _forget_idle(self) -> None:
        idle = [job for job, each in self._proposers.items() if each.idle and not self._leads(job)]
        for job in idle[: max(len(idle) - IDLE_MAX, 0)]:
            self._counter = max(self._counter, self._proposers.pop(job).counter)

    def voters(self, nearest: tuple[Contact, ...]) -> tuple[Contact, ...]:
        """Who shall vote on a new job, of the agents closest to it: a small fleet has a register of one."""
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
            Outdated: lambda sender, message, payload: acceptors.outdated(message),
            Promised: self.on_promised,
            Accepted: self.on_accepted,
            Conflict: self.on_conflict,
        }

    def on_prepare(self, sender: Contact, message: Prepare, payload: bytes) -> None:
        """A proposer asks for a promise, and states what it has seen of this voter."""
        self.acceptors.outdated(message)
        self.acceptors.prepare(sender, message)

    def on_accept(self, sender: Contact, message: Accept, payload: bytes) -> None:
        """A proposer asks for a vote, and states what it has seen of this voter."""
        self.acceptors.outdated(message)
        self.acceptors.accept(sender, message, payload)

    def on_promised(self, sender: Contact, message: Promised, payload: bytes) -> None:
        if not self._is_outdated(sender, message.votes) and (proposer := self._waiting(message.job)):
            proposer.promised(sender, message, payload)

    def on_accepted(self, sender: Contact, message: Accepted, payload: bytes) -> None:
        if not self._is_outdated(sender, message.votes) and (proposer := self._waiting(message.job)):
            proposer.accepted(sender, message)

    def on_conflict(self, sender: Contact, message: Conflict, payload: bytes) -> None:
        if proposer := self._waiting(message.job):
            proposer.refused(sender, message)

    def _waiting(self, job: bytes) -> Proposer | None:
        proposer = self._proposers.get(job)
        if proposer is None:
            self._context.stats["control.stray_votes"] += 1
        return proposer

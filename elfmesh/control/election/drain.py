"""Drain: an agent that leaves for good hands over its votes, because two lost voters are a lost majority.

Owns which votes of this agent are not handed over yet, the requests to the masters, and the `Departed`
messages. The master chooses the next voter (`register.members`) and replaces one acceptor at a time.

Invariants: this agent votes until the register has settled without it, so that a leaving agent never costs a
majority. It asks from the beginning of the drain, while its last intervals are open, because it may be
switched off before they are closed. It waits at most `PATIENCE_S`, because a register without a majority
cannot change. It sends `Departed` last, so that other agents that found a job do not wait for it.

Paper: CASPaxos (Rystsov 2018) 2.3.
"""

from __future__ import annotations

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.messages_register import Departed, Resign, Resigned

ASK_AGAIN_S = 1.0
"""Interval between two `Resign` messages to the master of a job."""

PATIENCE_S = 300.0
"""Maximum time for which the agent asks after its jobs have ended; a dead member is expected as long."""

FAREWELLS = 3
"""Number of `Departed` messages, because agents do not acknowledge them."""


class Drain:
    """Drain of one agent.

    Args:
        leadership: the votes, and the leaders of jobs.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership
        self._since: float | None = None
        self._asked_at = float("-inf")
        self._handed: dict[bytes, Ballot] = {}
        self._farewells = 0

    def over(self, idle: bool) -> bool:
        """Return whether this agent may end; otherwise ask the masters to replace it as a voter.

        Args:
            idle: whether all jobs of which this agent was a member have ended here.
        """
        now = self._context.now
        if idle and self._since is None:
            self._since = now
        open_votes = self._open()
        if not open_votes or (self._since is not None and now - self._since >= PATIENCE_S):
            return idle and self._farewell()
        if now - self._asked_at >= ASK_AGAIN_S:
            self._asked_at = now
            for job in open_votes:
                self._ask(job, last=idle)
        return False

    def _farewell(self) -> bool:
        self._farewells += 1
        for contact in self._leadership.first.known_peers.there():
            self._context.send(contact, Departed())
        return self._farewells >= FAREWELLS

    def jobs(self) -> list[str]:
        """Return the names of the jobs on which this agent still votes."""
        found = [(job, self._leadership.known(job)[0]) for job in self._open()]
        return [job.hex() if terms is None else terms.manifest.qualified for job, terms in found]

    def on_resigned(self, message: Resigned) -> None:
        """Note that the register of a job has settled without this agent."""
        self._handed[message.job] = self._leadership.registers.acceptors.vote(message.job).ballot

    def _open(self) -> list[bytes]:
        acceptors = self._leadership.registers.acceptors
        return [
            job
            for job in acceptors.voting(self._context.me.id)
            if self._handed.get(job) != acceptors.vote(job).ballot
        ]

    def _ask(self, job: bytes, *, last: bool) -> None:
        cell = self._leadership.registers.acceptors.vote(job).value
        assert cell is not None
        leader = self._leadership.leader(job) or cell.value.master
        self._context.send(leader, Resign(job, cell.value.incarnation, self._context.me, last))

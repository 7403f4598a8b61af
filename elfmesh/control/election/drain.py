"""An agent that goes for good hands its votes over before it ends: two voters that left were a lost job.

Owns which votes of this agent are not handed over yet, the asking, and the farewell. Who votes instead is the
master's decision (`register.members`), made through the register, one acceptor at a time.

Invariants: this agent votes on until the register has settled without it, so that no majority is ever missing
because an agent is about to go. It asks from the beginning, while its last intervals are still open: who
switches it off meanwhile takes no votes away that another could have. It does not wait for ever: a register
without a majority changes for no agent. What it says last is that it has left: those that stay need not wait
until it is forgotten before they found a job.

Paper: CASPaxos (Rystsov 2018) 2.3.
"""

from __future__ import annotations

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.messages_register import Departed, Resign, Resigned

ASK_AGAIN_S = 1.0
"""How often a job's master is asked to let this agent go."""

PATIENCE_S = 300.0
"""How long it asks when nothing else is open: as long as a dead member is expected."""

FAREWELLS = 3
"""How often it says that it has left: no agent acknowledges it."""


class Drain:
    """The votes of an agent that leaves.

    Args:
        context: clock and way out.
        leadership: the votes, and who leads which job.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership
        self._since: float | None = None
        self._asked_at = float("-inf")
        self._handed: dict[bytes, Ballot] = {}
        self._farewells = 0

    def over(self, idle: bool) -> bool:
        """Whether no agent counts on this one any more; asks for that, whenever it is called.

        Args:
            idle: all jobs that it worked on have ended here.
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
        """Names of the jobs that this agent still votes on."""
        found = [(job, self._leadership.known(job)[0]) for job in self._open()]
        return [job.hex() if terms is None else terms.manifest.qualified for job, terms in found]

    def resigned(self, message: Resigned) -> None:
        """A master says that its register has settled without this agent."""
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

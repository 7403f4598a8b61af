"""Votes on jobs that are over: how many are kept, and what stands for those that are not.

Owns the bound, and the *floor*: a ballot above all that this agent has promised and accepted in the votes it
has forgotten. Votes for nothing itself.

Why such votes are kept at all: an agent that was away when a job was deleted still holds the job's live
value. The votes of the others that the job is over have higher ballots, so a proposer finds them and not that
value.

Invariants: only votes on jobs that are over are forgotten, the oldest first, and the floor that covers them
is on disk no later than they are gone. An acceptor without a vote on a job has promised its floor, and says
the floor in its promise. A proposer takes such a promise for one that may hide the end of the job: it does
not count for a live value that was accepted at or below the floor (`rules.Round.prepared`), however long the
agent that holds this value was away. A majority that may all hide the end has forgotten it, since votes on
live jobs are never forgotten: the value is over (`rules.Round.newest`). Neither rests on a clock. The floor
also covers the epochs of the jobs that were forgotten, so that a job of the same name begins above them.

Paper: CASPaxos (Rystsov 2018) 3.1 removes a register once all acceptors have the tombstone and all proposers
were told. Deviation: here no proposer waits for agents that are away; they are refused when they come back.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.errors import ProtocolError
from elfmesh.machine import Count

KIND = "vote-floor"
"""Of what is kept on disk."""

ENDED_MAX = 1024
"""Votes on jobs that are over. Beyond it the floor stands for the oldest ones."""


class Floor(msgspec.Struct, frozen=True):
    """What stands for votes that are forgotten.

    Attributes:
        ballot: at or above all that was promised and accepted in them.
        epoch: at or above all of their jobs.
    """

    ballot: Ballot = NONE
    epoch: Count = 0

    def covering(self, promised: Ballot, epoch: int) -> Floor:
        return Floor(max(self.ballot, promised), max(self.epoch, epoch))


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Floor)


class EndedJobs:
    """The jobs that are over on which this agent has a vote, those that ended last at the end.

    Attributes:
        floor: stands for the others.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[bytes, None] = OrderedDict()
        self.floor = Floor()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def oldest(self) -> bytes | None:
        """The job that ended first, None if there is none."""
        return next(iter(self._jobs), None)

    def voted(self, job: bytes, *, over: bool) -> None:
        self._jobs.pop(job, None)
        if over:
            self._jobs[job] = None

    def clear(self) -> None:
        """No vote is kept any more; the floor stays."""
        self._jobs.clear()

    def forget(self, job: bytes, promised: Ballot, epoch: int) -> bytes:
        """Cover a vote with the floor; the floor as it is kept on disk."""
        self._jobs.pop(job, None)
        self.floor = self.floor.covering(promised, epoch)
        return _PACK.encode(self.floor)

    def restored(self, data: bytes) -> None:
        """The floor from before this agent was restarted.

        Raises:
            ProtocolError: it cannot be read: without it an end that was forgotten could be undone.
        """
        try:
            self.floor = _UNPACK.decode(data)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the floor of forgotten votes cannot be read: {error}") from None

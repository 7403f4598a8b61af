"""Votes on deleted jobs: their bound, and the floor that replaces forgotten votes.

Owns the bound, and the *floor*: a ballot that is not below any ballot of the forgotten votes. Does not vote.

Votes on deleted jobs are kept because an agent that was away during the deletion still has the job's live
value. The other voters' votes on the deletion have higher ballots, so that a proposer finds them and not that
value.

Invariants: only votes on deleted jobs are forgotten, the oldest first. The floor that covers them is on disk
before they are removed. An acceptor without a vote on a job has promised its floor, and its promise contains
the floor. A proposer assumes that such a promise may hide the end of the job: it does not count for a live
value that was accepted at or below the floor (`rules.Round.prepared`), however long the agent with this value
was away. If a majority may hide the end, it has forgotten it, because votes on live jobs are never forgotten;
the value is then over (`rules.Round.newest`). Neither rule depends on a clock. The floor also covers the
epochs of the forgotten jobs, so that a job of the same name begins above them.

Paper: CASPaxos (Rystsov 2018) 3.1 removes a register when all acceptors have the tombstone and all proposers
know it. Deviation: no proposer waits for agents that are away; acceptors refuse them when they return.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.errors import ProtocolError
from elfmesh.machine import Count

KIND = "vote-floor"
"""Kind of the stored floor."""

ENDED_MAX = 1024
"""Maximum number of votes on deleted jobs; the floor replaces the oldest ones beyond it."""


class Floor(msgspec.Struct, frozen=True):
    """Replacement of forgotten votes.

    Attributes:
        ballot: upper bound of their promised and accepted ballots.
        epoch: upper bound of the epochs of their jobs.
    """

    ballot: Ballot = NONE
    epoch: Count = 0

    def covering(self, promised: Ballot, epoch: int) -> Floor:
        return Floor(max(self.ballot, promised), max(self.epoch, epoch))


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Floor)


class EndedJobs:
    """Deleted jobs on which this agent has a vote, in the order of their ends.

    Attributes:
        floor: replacement of forgotten votes.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[bytes, None] = OrderedDict()
        self.floor = Floor()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def oldest(self) -> bytes | None:
        """The job that ended first; None if there is none."""
        return next(iter(self._jobs), None)

    def voted(self, job: bytes, *, over: bool) -> None:
        self._jobs.pop(job, None)
        if over:
            self._jobs[job] = None

    def clear(self) -> None:
        """Forget all jobs; the floor stays."""
        self._jobs.clear()

    def forget(self, job: bytes, promised: Ballot, epoch: int) -> bytes:
        """Cover a vote with the floor; returns the floor as bytes to store."""
        self._jobs.pop(job, None)
        self.floor = self.floor.covering(promised, epoch)
        return _PACK.encode(self.floor)

    def restored(self, data: bytes) -> None:
        """Restore the floor of an earlier boot.

        Raises:
            ProtocolError: the floor cannot be read; without it a deleted job could return.
        """
        try:
            self.floor = _UNPACK.decode(data)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the floor of forgotten votes cannot be read: {error}") from None

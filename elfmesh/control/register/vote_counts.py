"""Vote counts: the numbers of votes of other agents in their newest answers.

Owns these numbers, on disk. A data directory that was rolled back (a snapshot of a virtual machine, `cp -r`)
or cloned has valid files, so that no checksum detects it. Each voter counts its votes, and its answers
contain the count and the boot. There are two checks:

1. A request contains the newest count and boot of the voter that its sender has seen. The voter compares them
   with its own before it votes (`Acceptors.on_outdated`).
2. An answer from an earlier boot than a previous one, or with fewer votes than an answer more than `LATE_S`
   ago, is ignored. Its voter receives `Outdated` and compares in the same way. This check is for voters of an
   earlier release, and for requests that were sent before any answer.

The first check is sound because the count is on disk before an answer contains it, and never falls in a data
directory. An acceptor with a lower count than a request has therefore lost votes. A delay does not look like
this, because a late or repeated request contains a lower count. Only the voter can decide in this way: its
answer may arrive after the answer to a later request, with a higher count, and then looks like the answer of
a copy. The second check therefore waits for `LATE_S`.

Not covered: a voter whose newer votes no living agent has seen, or less than `KEEP_S` before that agent
restarted; and, within `LATE_S`, one vote for a request that was sent before the newer votes were seen and
that arrives after the rollback.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Persist
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

KIND = "voter-seen"
"""Kind of the stored counts."""

VOTERS_MAX = 1024
KEEP_S = 10.0
"""Minimum interval between two writes of a voter's count."""

LATE_S = 60.0
"""Time within which answers of one boot may arrive in another order."""


class VoterAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The newest answer of a voter."""

    boot: int = 0
    votes: int = 0


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(VoterAnswer)


class VoteCounts:
    """The counts of all voters that have answered this agent.

    Args:
        context: clock and disk.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen: OrderedDict[bytes, VoterAnswer] = OrderedDict()
        self._at: dict[bytes, float] = {}
        self._kept: dict[bytes, float] = {}

    def newer(self, voter: Contact, votes: int) -> VoterAnswer | None:
        """Return the newest answer of a voter if the present one is older; else store it and return None.

        Args:
            voter: contact in the present answer.
            votes: number of its votes; 0: a release that does not count them.
        """
        known = self._seen.get(voter.id)
        now = self._context.now
        if known is not None and voter.incarnation < known.boot:
            return known
        if known is not None and 0 < votes < known.votes:
            late = voter.incarnation == known.boot and now - self._at.get(voter.id, float("-inf")) < LATE_S
            return None if late else known
        seen = VoterAnswer(voter.incarnation, max(votes, 0 if known is None else known.votes))
        if seen == known:
            return None
        self._seen[voter.id] = seen
        self._seen.move_to_end(voter.id)
        self._at[voter.id] = now
        if now - self._kept.get(voter.id, float("-inf")) >= KEEP_S:
            self._kept[voter.id] = now
            self._context.emit(Persist(KIND, voter.id, _PACK.encode(seen)))
        while len(self._seen) > VOTERS_MAX:
            agent, _ = self._seen.popitem(last=False)
            self._kept.pop(agent, None)
            self._at.pop(agent, None)
            self._context.emit(Persist(KIND, agent, b""))
        return None

    @safeguard("votes-seen")
    def seen(self, voter: bytes) -> VoterAnswer:
        return self._seen.get(voter) or VoterAnswer()

    def restored(self, agent: bytes, data: bytes) -> None:
        """Restore an answer from an earlier boot of this agent; a damaged one is ignored and counted."""
        try:
            self._seen[agent] = _UNPACK.decode(data)
        except msgspec.MsgspecError:
            self._context.stats["control.malformed"] += 1

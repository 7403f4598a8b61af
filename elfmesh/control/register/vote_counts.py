"""How many votes other agents have given, as far as this agent has seen their answers.

Owns what is remembered of voters, on disk. A data directory that was rolled back (a snapshot of a virtual
machine, `cp -r`) and a cloned one are valid files: no checksum finds them out. But each vote is counted, and
an answer says the count and the boot. There are two checks:

1. A question says the newest count and boot that its sender had seen of the voter when it sent it. The voter
   compares them with its own before it votes (`Acceptors.outdated`).
2. An answer in an earlier boot after a later one, or with fewer votes than were seen more than `LATE_S` ago,
   counts for nothing. Its voter is told so, and compares in the same way. This check serves voters of an
   earlier release, and questions that were asked before anything was seen.

Why the first check is sound: the count is on disk before an answer that says it, and never falls while the
directory stays. So an acceptor that holds less than a question says has lost votes, however short the time
was. No delay looks like that: of what was seen when a question was sent, all was counted before it comes, and
a question that comes late or twice says less. Only the voter can judge so. Its answer may come behind the
answer to a later question, which had counted more, and then looks as if it came from a copy; so the check of
answers waits for `LATE_S`.

Not covered: a voter whose newer votes were seen by no agent that is there, or less than `KEEP_S` before that
agent was restarted; and within `LATE_S` one vote for a question that was asked before the newer votes were
seen, and comes after the voter went back.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Persist
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

KIND = "voter-seen"
"""Of what is kept on disk."""

VOTERS_MAX = 1024
KEEP_S = 10.0
"""How often the count of a voter is written down, at most."""

LATE_S = 60.0
"""How long answers of one boot may overtake each other."""


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
        """What was seen of a voter, if its answer is older than that; else the answer is remembered.

        Args:
            voter: as it has answered.
            votes: given by it in all; 0: it is of a release that does not count.
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
        """Seen in an earlier boot of this agent. What cannot be read is left out and counted."""
        try:
            self._seen[agent] = _UNPACK.decode(data)
        except msgspec.MsgspecError:
            self._context.stats["control.malformed"] += 1

"""Parts that one tree holds at one agent: waiting parts, own contributions, and sent parts.

Owns the shelves and their limit in bytes, and does not depend on the reasons for which parts are held.

Invariants: nothing below the released interval is held. Own contributions are held until they are released,
because no other agent has them. If there is no room, sent parts are dropped first, because other agents have
their originals.
"""

from __future__ import annotations

from elfmesh.srt.messages import FIRST
from elfmesh.srt.parts import Part, Shelf


class HeldParts:
    """Shelves of one tree.

    Args:
        held_bytes_max: limit of all shelves together.

    Attributes:
        pending: accepted parts that wait at the barrier.
        own: this agent's contributions, for a later attempt.
        sent: parts that were sent up, for a new parent.
        truncated: some sent parts were dropped.
    """

    def __init__(self, held_bytes_max: int) -> None:
        self._held_bytes_max = held_bytes_max
        self.clear()

    def clear(self) -> None:
        self.pending = Shelf()
        self.own = Shelf()
        self.sent = Shelf()
        self.truncated = False

    @property
    def nbytes(self) -> int:
        return self.pending.nbytes + self.own.nbytes + self.sent.nbytes

    def has_room(self, part: Part) -> bool:
        """Return whether a part can be held, if necessary by dropping all sent parts."""
        return self.nbytes - self.sent.nbytes + part.nbytes <= self._held_bytes_max

    def release(self, stop: int) -> None:
        for shelf in (self.pending, self.own, self.sent):
            shelf.take(FIRST, stop)

    def shrink(self) -> int:
        """Drop sent parts, oldest first, until the rest is within the limit.

        Returns how many were dropped.
        """
        dropped = 0
        while len(self.sent) and self.nbytes > self._held_bytes_max:
            self.sent.pop_oldest()
            self.truncated = True
            dropped += 1
        return dropped

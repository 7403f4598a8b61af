"""What one tree holds at one agent: parts that wait, its own contributions, and what went up.

Owns the shelves and their limit in bytes; refuses to know why a part is on one of them.

Invariants: nothing below what was released is held; own contributions are held until they are released, since
no other agent has them; what went up goes first where there is no room, it has an original elsewhere.
"""

from __future__ import annotations

from elfmesh.srt.messages import FIRST
from elfmesh.srt.parts import Part, Shelf


class HeldParts:
    """See the module.

    Args:
        held_bytes_max: of all shelves together.

    Attributes:
        pending: accepted, and held back at the barrier.
        own: what this agent has contributed, for a later attempt.
        sent: what went up, for a new parent.
        truncated: not all that went up is held any more.
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
        """Whether a part may be held, if need be instead of all that went up."""
        return self.nbytes - self.sent.nbytes + part.nbytes <= self._held_bytes_max

    def release(self, stop: int) -> None:
        for shelf in (self.pending, self.own, self.sent):
            shelf.take(FIRST, stop)

    def shrink(self) -> int:
        """Stop holding what went up, oldest first, until the rest is within the limit; how many parts."""
        dropped = 0
        while len(self.sent) and self.nbytes > self._held_bytes_max:
            self.sent.pop_oldest()
            self.truncated = True
            dropped += 1
        return dropped

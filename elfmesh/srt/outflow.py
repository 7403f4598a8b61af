"""Output of one barrier to its parent.

Owns whether there is a parent, and the frontier that was announced to it. Does not depend on the reasons for
which parts are sent.

Invariant: sent parts are held (`held_parts`) until they are closed or there is no room, so that a new parent
can receive them. Without a parent nothing is sent.
"""

from __future__ import annotations

from dataclasses import replace

from elfmesh.srt.held_parts import HeldParts
from elfmesh.srt.parts import Part
from elfmesh.srt.ports import Above


class Outflow:
    """Output of one barrier.

    Args:
        above: receives the output.
        held: stores the sent parts.
    """

    def __init__(self, above: Above, held: HeldParts) -> None:
        self._above = above
        self._held = held
        self._open = False
        self._announced: int | None = None

    @property
    def open(self) -> bool:
        return self._open

    def forget(self) -> None:
        """Begin a new epoch, of which nothing was announced to the parent."""
        self._announced = None

    def resume(self, announced: int | None) -> None:
        """Start sending to a parent, to which `announced` was announced.

        The held sent parts are sent again.
        """
        self._open = True
        self._announced = announced
        for part in self._held.sent:
            self.again(part)

    def pause(self) -> None:
        self._open = False

    def announce(self, frontier: int | None) -> None:
        """Announce the frontier to the parent, below which it need not wait, unless it was announced."""
        if frontier != self._announced:
            self._announced = frontier
            self._above.announce(frontier)

    def claimed(self, frontier: int) -> None:
        self._announced = frontier

    def forward(self, part: Part, *, claims: bool = False) -> None:
        if part.start >= part.stop:
            return
        if part.coverage:
            self._held.sent.add(part)
        if self._open and (part.coverage or claims):
            self._above.forward(part, claims=claims)

    def again(self, part: Part) -> None:
        """Send a part again, unmerged, so that it is either a duplicate or disjoint."""
        self._above.forward(replace(part, alone=True), claims=False)

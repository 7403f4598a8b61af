"""The way up from one barrier: what a parent gets, and what it was told to wait for.

Owns whether there is a parent and what it was told; refuses to know why something goes up.

Invariant: what went up is held (`holding`) until it is closed or there is no room, so that a new parent can
have it; without a parent nothing goes up.
"""

from __future__ import annotations

from dataclasses import replace

from elfmesh.srt.held_parts import HeldParts
from elfmesh.srt.parts import Part
from elfmesh.srt.ports import Above


class Outflow:
    """See the module.

    Args:
        above: takes the output.
        held: keeps what went up.
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
        """Another epoch: the parent was told nothing of it."""
        self._announced = None

    def resume(self, announced: int | None) -> None:
        """There is a parent, which was told `announced`; it gets again what went up and is held."""
        self._open = True
        self._announced = announced
        for part in self._held.sent:
            self.again(part)

    def pause(self) -> None:
        self._open = False

    def announce(self, frontier: int | None) -> None:
        """Tell the parent below what it need not wait, unless it knows."""
        if frontier != self._announced:
            self._announced = frontier
            self._above.announce(frontier)

    def claimed(self, frontier: int) -> None:
        """What goes up next tells the parent so."""
        self._announced = frontier

    def forward(self, part: Part, *, claims: bool = False) -> None:
        if part.start >= part.stop:
            return
        if part.coverage:
            self._held.sent.add(part)
        if self._open and (part.coverage or claims):
            self._above.forward(part, claims=claims)

    def again(self, part: Part) -> None:
        """Send up what went up before: alone, so that it can only be a duplicate or disjoint."""
        self._above.forward(replace(part, alone=True), claims=False)

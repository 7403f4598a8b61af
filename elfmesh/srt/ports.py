"""Who tells whom what inside one tree: the protocols between its parts.

Owns no behaviour. The parts know each other only through these, so that each can be tested alone.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.machine import Contact
from elfmesh.srt.messages import Join, Joined
from elfmesh.srt.parts import Part


class Above(Protocol):
    """Where the barrier's output goes: to the parent, or to the owner of the root."""

    def forward(self, part: Part, *, claims: bool) -> None:
        """Send a part up. Its coverage is 0 when it only claims."""
        ...

    def announce(self, frontier: int | None) -> None:
        """Tell the parent where this subtree stands."""
        ...

    def overlap(self, start: int, stop: int, attempt: int) -> None:
        """Partials of this range overlap in this attempt."""
        ...

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        """Not everybody knows that this range is being collected as this attempt."""
        ...

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None:
        """Contributions were dropped."""
        ...


class Owner(Protocol):
    """The tree, where it is the root."""

    def collected(self, part: Part) -> None:
        """A part has reached the root."""
        ...

    def overlapped(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        """A range must be collected as a later attempt, or (lagging) the order for this one be repeated."""
        ...

    def dropped(self, start: int, stop: int, coverage: int, error: str) -> None:
        """Contributions could not be merged."""
        ...


class Tenant(Protocol):
    """The tree, told of what changes."""

    def joining(self, token: int, *, climb: int, hops: int) -> Join:
        """The JOIN to send now."""
        ...

    def attached(self, parent: Contact, join: Join, joined: Joined) -> None:
        """There is a parent."""
        ...

    def detached(self) -> None:
        """There is none any more."""
        ...

    def became_root(self) -> None:
        """This agent is the root."""
        ...

    def lost_root(self) -> None:
        """It is not any more; a parent follows, or the end of the tree here."""
        ...

    def child_joined(self, child: Contact, join: Join) -> None:
        """A child is there, or there again."""
        ...

    def child_left(self, child: bytes) -> None:
        """A child is gone."""
        ...

    def joined_reply(self, token: int, depth: int) -> Joined:
        """What a new child is told."""
        ...

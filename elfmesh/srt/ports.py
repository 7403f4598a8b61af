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

    def overlap(self, start: int, stop: int, attempt: int) -> None: ...

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        """Not all agents know that this range is being collected as this attempt."""
        ...

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None: ...


class Owner(Protocol):
    """The tree, where it is the root."""

    def collected(self, part: Part) -> None: ...

    def overlapped(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        """A range must be collected as a later attempt, or (lagging) the order for this one be repeated."""
        ...

    def dropped(self, start: int, stop: int, coverage: int, error: str) -> None: ...


class Tenant(Protocol):
    """The tree, told of what changes."""

    def joining(self, token: int, *, climb: int, hops: int) -> Join: ...

    def attached(self, parent: Contact, join: Join, joined: Joined) -> None: ...

    def detached(self) -> None:
        """There is none any more."""
        ...

    def became_root(self) -> None: ...

    def lost_root(self) -> None:
        """It is not any more; a parent follows, or the end of the tree here."""
        ...

    def child_joined(self, child: Contact, join: Join) -> None: ...

    def child_left(self, child: bytes) -> None: ...

    def joined_reply(self, token: int, depth: int) -> Joined: ...

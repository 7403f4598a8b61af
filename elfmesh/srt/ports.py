"""Interfaces between the parts of one tree.

Owns no behaviour. The parts depend only on these interfaces, so that each can be tested alone.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.machine import Contact
from elfmesh.srt.messages import Join, Joined
from elfmesh.srt.parts import Part


class Above(Protocol):
    """Receiver of the barrier's output: the parent, or the owner of the root."""

    def forward(self, part: Part, *, claims: bool) -> None:
        """Send a part up. Its coverage is 0 if it only claims."""
        ...

    def announce(self, frontier: int | None) -> None: ...

    def overlap(self, start: int, stop: int, attempt: int) -> None: ...

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        """Report that not all agents have received the order to collect this range as this attempt."""
        ...

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None: ...


class TreeOwner(Protocol):
    """Interface of the tree at its root."""

    def collected(self, part: Part) -> None: ...

    def overlapped(self, start: int, stop: int, attempt: int, *, lagging: bool) -> None:
        """Collect a range as a later attempt, or (lagging) repeat the order for this one."""
        ...

    def dropped(self, start: int, stop: int, coverage: int, error: str) -> None: ...


class Tenant(Protocol):
    """Interface of the tree for changes of membership."""

    def joining(self, token: int, *, climb: int, hops: int) -> Join: ...

    def attached(self, parent: Contact, join: Join, joined: Joined) -> None: ...

    def detached(self) -> None: ...

    def became_root(self) -> None: ...

    def lost_root(self) -> None:
        """The agent is no longer the root; a parent follows, or it leaves the tree."""
        ...

    def child_joined(self, child: Contact, join: Join) -> None: ...

    def child_left(self, child: bytes) -> None: ...

    def joined_reply(self, token: int, depth: int) -> Joined: ...

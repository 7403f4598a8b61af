"""What the pump needs of a network: `tcp`, or an in-memory one with faults. Sends are at most once."""

from __future__ import annotations

from typing import Protocol

from elfmesh.machine import Contact, Message


class Handler(Protocol):
    """What a transport calls; always on the loop's thread."""

    def received(self, sender: Contact, message: Message, payload: bytes) -> None: ...

    def lost(self, peer: bytes) -> None:
        """The connection to a peer broke, or it could not be reached."""
        ...


class Transport(Protocol):
    """How the pump reaches other agents: TCP for real, an in-memory network in simulation."""

    async def listen(self) -> tuple[str, int]:
        """Start to accept; the address others reach us at."""
        ...

    def open(self, me: Contact, handler: Handler) -> None: ...

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        """Send at most once; `to.id` may be b"" to address any agent there."""
        ...

    def stats(self) -> dict[str, int]: ...

    async def close(self) -> None:
        """Send what is queued (for a moment), then close everything."""
        ...

"""Interfaces between the pump and the network, which is TCP or, in tests, a simulation.

Messages are sent at most once.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.machine import Contact, Message


class Handler(Protocol):
    """Callbacks of a transport, called in the event loop's thread."""

    def received(self, sender: Contact, message: Message, payload: bytes) -> None: ...

    def lost(self, peer: bytes) -> None:
        """Called when the connection to a peer broke, or the peer could not be reached."""
        ...


class Transport(Protocol):
    """Interface of a network: TCP in production, an in-memory network in the simulator."""

    async def listen(self) -> tuple[str, int]:
        """Start listening. Returns the address at which other agents reach this one."""
        ...

    def open(self, me: Contact, handler: Handler) -> None: ...

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        """Send a message at most once. `to.id` may be b"" to address any agent at that address."""
        ...

    def stats(self) -> dict[str, int]: ...

    async def close(self) -> None:
        """Send queued messages for a short time, then close all connections."""
        ...

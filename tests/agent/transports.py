"""What the tests of transports share: peers that are started and closed, and waiting for what they count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from elfmesh.agent.net.tcp import TcpTransport
from tests.patience import PATIENCE_S


class Startable(Protocol):
    """A peer of a test."""

    transport: TcpTransport

    async def start(self) -> None:
        """Listen."""
        ...


@asynccontextmanager
async def fleet(*peers: Startable) -> AsyncIterator[None]:
    for peer in peers:
        await peer.start()
    try:
        yield
    finally:
        for peer in peers:
            await peer.transport.close()


async def until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - a condition on counters, nothing sets an event
            await asyncio.sleep(0.005)

"""Stops a simulated process, as SIGSTOP would, and notes for how long."""

from __future__ import annotations

import asyncio


class Gate:
    """Open while the process runs; who passes a closed one waits for it to go on.

    Args:
        spans: takes from when to when it was closed.
    """

    def __init__(self, spans: list[tuple[float, float]]) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._spans, self._since = spans, 0.0

    @property
    def closed(self) -> bool:
        return not self._open.is_set()

    def close(self) -> None:
        if not self.closed:
            self._since = asyncio.get_running_loop().time()
        self._open.clear()

    def open(self) -> None:
        if self.closed:
            self._spans.append((self._since, asyncio.get_running_loop().time()))
        self._open.set()

    async def passed(self) -> None:
        while self.closed:
            await self._open.wait()

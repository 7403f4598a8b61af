"""Sends signs of life to the service manager while the event loop runs and every stream makes progress.

An agent whose reading hangs on a failed disk or a lock would otherwise run forever and count nothing. Without
signs of life the manager ends the agent. As in any crash, no sealed contribution is lost (D-1). A stream
without jobs, memory, disk space or input only waits, and is not stalled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from elfmesh.agent.service.notify import Notifier

log = logging.getLogger("elf.agent")
STALL_SHARE = 0.5
"""A stream without progress for this share of the watchdog's period is stalled."""

SIGNS = 4
"""Signs of life per period, so that one or two may be late on a busy host."""


class WatchedStream(Protocol):
    """Interface of the read loop of a stream (`elfmesh.ingest.read_loop.Ingest`)."""

    def stalled_s(self, now: float) -> float:
        """Seconds since the read loop made progress, by the event loop's clock; 0 if it has nothing to do."""
        ...


class Streams(Protocol):
    """Interface of the workers (`elfmesh.ingest.workers.WorkerHost`)."""

    @property
    def ingests(self) -> Mapping[str, WatchedStream]: ...

    @property
    def problem(self) -> str: ...


def stalled(streams: Streams, now: float) -> tuple[str, float]:
    """Return the stream without progress for the longest time, and this time in seconds.

    While the disk is full, no stream is stalled, because all wait for space.
    """
    if streams.problem:
        return "", 0.0
    found = ((stream.stalled_s(now), name) for name, stream in streams.ingests.items())
    longest_s, name = max(found, default=(0.0, ""))
    return name, longest_s


class Watchdog:
    """Sends signs of life to `notifier` while `streams` make progress."""

    def __init__(self, notifier: Notifier, streams: Streams) -> None:
        self._notifier, self._streams = notifier, streams
        self._stuck = False

    async def run(self) -> None:
        period_s = self._notifier.watchdog_s
        if period_s is None:
            return
        while True:
            self.look(asyncio.get_running_loop().time(), period_s * STALL_SHARE)
            await asyncio.sleep(period_s / SIGNS)

    def look(self, now: float, stall_s_max: float) -> None:
        name, stalled_s = stalled(self._streams, now)
        stuck = stalled_s > stall_s_max
        if stuck and not self._stuck:
            log.error("stream %s has not moved for %.1f s: no more signs of life", name, stalled_s)
            self._notifier.status(f"stuck: stream {name} does not move")
        elif self._stuck and not stuck:
            log.warning("all streams move again")
            self._notifier.status("ready")
        self._stuck = stuck
        if not stuck:
            self._notifier.alive()

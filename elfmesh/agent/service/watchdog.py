"""Signs of life for the service manager: given only while the loop turns and every stream moves.

An agent whose reading hangs on a dead disk or a lock would otherwise live for ever and count nothing. Without
signs the manager ends it, which as any crash costs nothing that was sealed (D-1). A stream without jobs,
memory, disk room or input only waits and is well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from elfmesh.agent.service.notify import Notifier

log = logging.getLogger("elf.agent")
STALL_SHARE = 0.5
"""A stream that has not moved for this share of the watchdog's period is stuck."""

SIGNS = 4
"""Signs of life in one period: one or two may come late on a busy host."""


class Stream(Protocol):
    """What is asked of the loop over a stream (`elfmesh.ingest.read_loop.Ingest`)."""

    def stalled_s(self, now: float) -> float:
        """For how long it has not come round, by the loop's clock; 0 where there is nothing to do."""
        ...


class Streams(Protocol):
    """What is asked of the workers (`elfmesh.ingest.workers.WorkerHost`)."""

    @property
    def ingests(self) -> Mapping[str, Stream]: ...

    @property
    def problem(self) -> str: ...


def stalled(streams: Streams, now: float) -> tuple[str, float]:
    """The stream whose loop has not come round for longest, and for how many seconds.

    While the disk is full nothing is stalled: everything waits for room.
    """
    if streams.problem:
        return "", 0.0
    found = ((stream.stalled_s(now), name) for name, stream in streams.ingests.items())
    longest_s, name = max(found, default=(0.0, ""))
    return name, longest_s


class Watchdog:
    """Tells `notifier` that the agent lives, as long as `streams` move."""

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

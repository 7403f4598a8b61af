"""Releases for the frame log: they are written together with the next frames, to save calls.

A release only avoids repeated reports after a restart, so it is not synced. `add` is called in the event
loop, `write` in the thread of the frame log.
"""

from __future__ import annotations

import contextlib
from collections import deque

from elfmesh.errors import DiskFull
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released

WAIT_S = 1.0
"""Longest time that a release waits for frames."""


class Releases:
    """Pending releases."""

    def __init__(self, frames: FrameLog) -> None:
        self._frames = frames
        self._waiting: deque[Released] = deque()

    def add(self, released: Released) -> bool:
        self._waiting.append(released)
        return len(self._waiting) == 1

    def write(self) -> None:
        """Write the pending releases, the newest of each job, which includes the earlier ones."""
        newest: dict[str, Released] = {}
        while self._waiting:
            each = self._waiting.popleft()
            newest[each.job] = each
        for each in newest.values():
            with contextlib.suppress(DiskFull):  # a later release includes it
                self._frames.append(each)

    def tell(self) -> None:
        """Write the pending releases if no frame has come, and reclaim the space of released frames."""
        self.write()
        self._frames.compact()

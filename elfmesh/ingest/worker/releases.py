"""Releases on their way to the frame log: they wait for the next frames, so that none costs a hand-over.

A release only says what need not be said again after a restart, so it is not synced. `add` is called on the
loop, `write` in the thread of the frame log.
"""

from __future__ import annotations

import contextlib
from collections import deque

from elfmesh.errors import DiskFull
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released

WAIT_S = 1.0
"""How long a release waits for frames to be written with."""


class Releases:
    """See the module."""

    def __init__(self, frames: FrameLog) -> None:
        self._frames = frames
        self._waiting: deque[Released] = deque()

    def add(self, released: Released) -> bool:
        self._waiting.append(released)
        return len(self._waiting) == 1

    def write(self) -> None:
        """Write what waits, the newest of each job: it says the same as those before it, and more."""
        newest: dict[str, Released] = {}
        while self._waiting:
            each = self._waiting.popleft()
            newest[each.job] = each
        for each in newest.values():
            with contextlib.suppress(DiskFull):  # a later one will do
                self._frames.append(each)

    def tell(self) -> None:
        """The same where no frame has come, and make room of what is released."""
        self.write()
        self._frames.compact()

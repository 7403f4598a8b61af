"""Writer of frames to the frame log; `write` returns when the frames are durable.

While the disk is full, `write` waits. Only calls in the lane "store" use the frame log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from elfmesh.errors import DiskFull
from elfmesh.ingest.host import Executor
from elfmesh.ingest.scheduling.task_queue import Command
from elfmesh.ingest.timings import timed
from elfmesh.ingest.worker.releases import WAIT_S, Releases
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Frame, Released

log = logging.getLogger("elf.worker")
FULL_RETRY_S = 0.5
"""Interval of attempts to write to a full disk."""


class FrameWriter:
    """Writer of frames; `problem` is the reason why reading waits, "" while the disk has room."""

    def __init__(self, frames: FrameLog, executor: Executor, spawn: Callable[[Command], None]) -> None:
        self._frames = frames
        self._executor = executor
        self._spawn = spawn
        self._releases = Releases(frames)
        self._closing = False
        self.problem = ""

    async def write(self, frames: Sequence[Frame]) -> None:
        """Write frames durably. While the disk is full, the call waits, and so does its caller's reading."""
        left = deque(frames)
        waiting = False
        while True:
            try:
                await self._executor.run("store", partial(self._append, left))
            except DiskFull as error:
                if self._closing:  # the next start reads the records of lost frames again
                    raise
                if not waiting:
                    log.error("reading waits: %s", error)
                waiting = True
                self.problem = f"reading waits: {error}"
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if waiting:
                    log.info("there is room on disk again")
                    self.problem = ""
                return

    def _append(self, frames: deque[Frame]) -> None:
        self._releases.write()
        while frames:
            self._frames.append(frames[0])
            frames.popleft()
        with timed("frame_log_sync"):
            self._frames.sync()

    def release(self, released: Released) -> None:
        """Schedule a release: it is written with the next frames, or soon if there are none."""
        if self._releases.add(released):
            asyncio.get_running_loop().call_later(WAIT_S, self._tell)

    def _tell(self) -> None:
        if not self._closing:
            self._spawn(partial(self._executor.run, "store", self._releases.tell))

    def stop_waiting(self) -> None:
        self._closing = True

    async def close(self) -> None:
        for work in (self._releases.write, self._frames.close):
            await self._executor.run("store", work)

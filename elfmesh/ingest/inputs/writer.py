"""Writer of a spool for many senders: writes and syncs queued lines together, then notifies the senders.

A sender has at most one `put` in progress and waits in it until its lines are durable. This provides
back-pressure and bounds the queue. It runs on the event loop; the disk is accessed in a lane of the executor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from elfmesh.ingest.host import Executor
from elfmesh.ingest.inputs.positions import SenderMark
from elfmesh.ingest.inputs.spool import Spool, SpoolFull
from elfmesh.ingest.sources.position import FilePosition

log = logging.getLogger("elf.inputs")
COMMIT_BYTES_MAX = 4 << 20
FULL_RETRY_S = 0.2
Entry = tuple[bytes, int, "asyncio.Future[None]", SenderMark | None]
Restarts = Callable[[], Awaitable[Sequence[Sequence[FilePosition]]]]


@dataclass
class Counters:
    """Counters of an input.

    Attributes:
        nbytes: bytes of the received messages, as in the spool.
        lost: datagrams that the kernel dropped, and messages that brokers deleted before they were read.
        overlong: dropped messages that exceed the limit of a line.
        refused: refused connections and requests.
        problem: why nothing is received at the moment; "" if there is no problem.
    """

    connections: int = 0
    messages: int = 0
    nbytes: int = 0
    lost: int = 0
    overlong: int = 0
    refused: int = 0
    problem: str = ""


def watched(work: Coroutine[Any, Any, None], name: str, counters: Counters) -> asyncio.Task[None]:
    """Run a task that should never end; an error that ends it is logged and shown as the input's problem."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            counters.problem = f"the input has failed: {error!r}"
            log.error("stream %s: the input has failed", name, exc_info=error)

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(ended)
    return task


class SpoolWriter:
    """Writer of one spool, in the executor's lane `spool:NAME`.

    `restarts` returns the restart positions of each job.
    """

    def __init__(self, name: str, spool: Spool, executor: Executor, restarts: Restarts) -> None:
        self.spool, self.counters = spool, Counters()
        self.name, self._executor, self._restarts = name, executor, restarts
        self._lane = f"spool:{name}"
        self._queue: list[Entry] = []
        self._wake = asyncio.Event()
        self._task = watched(self._run(), name, self.counters)

    async def put(self, data: bytes, messages: int, mark: SenderMark | None = None) -> None:
        """Write complete lines; returns when they are durable, however long that takes."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((data, messages, future, mark))
        self._wake.set()
        await future

    @property
    def waiting(self) -> bool:
        return bool(self.counters.problem)

    async def close(self) -> None:
        """Close the spool.

        Callers that wait in `put` get an error that leaves the outcome of their lines open.
        """
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for entry in self._queue:
            entry[2].cancel()
        await self._executor.run(self._lane, self.spool.close)

    def _take(self) -> tuple[list[Entry], int]:
        size = count = 0
        while count < len(self._queue) and (not count or size < COMMIT_BYTES_MAX):
            size += len(self._queue[count][0])
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch, size

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch, size = self._take()
                try:
                    marks = [entry[3] for entry in batch if entry[3] is not None]
                    await self._write(b"".join(entry[0] for entry in batch), marks)
                except asyncio.CancelledError:
                    self._queue = [*batch, *self._queue]
                    raise
                self.counters.messages += sum(entry[1] for entry in batch)
                self.counters.nbytes += size
                for entry in batch:
                    if not entry[2].done():
                        entry[2].set_result(None)

    async def _write(self, data: bytes, marks: Sequence[SenderMark]) -> None:
        while True:
            try:
                await self._executor.run(self._lane, lambda: self.spool.append(data, marks))
            except SpoolFull as error:
                if await self._make_room():
                    continue
                if not self.counters.problem:
                    log.warning("stream %s waits: its spool has no room: %s", self.name, error)
                self.counters.problem = f"the spool has no room: {error}"
                await asyncio.sleep(FULL_RETRY_S)
            else:
                if self.counters.problem:
                    log.info("stream %s goes on", self.name)
                self.counters.problem = ""
                return

    async def _make_room(self) -> bool:
        if not self.spool.over:  # the disk is full, but not the spool
            return False
        restarts = await self._restarts()
        return await self._executor.run(self._lane, lambda: self.spool.give_up_read(restarts))

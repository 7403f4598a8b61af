"""Many senders, one spool: what came meanwhile is written and synced together, and each sender is told after.

A sender has at most one `put` under way and waits in it until its lines are durable. That is the
back-pressure and bounds the queue. Lives on the loop; the disk is touched in a lane of the executor.
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
    """What an input has seen, for people and for the jobs.

    Attributes:
        nbytes: of the messages taken, as they stand in the spool.
        lost: datagrams that the kernel had no room for, messages that brokers had dropped.
        overlong: messages beyond the limit on a line, left out.
        refused: connections and requests turned away.
        problem: why nothing is taken at the moment; "" if all is well.
    """

    connections: int = 0
    messages: int = 0
    nbytes: int = 0
    lost: int = 0
    overlong: int = 0
    refused: int = 0
    problem: str = ""


def watched(work: Coroutine[Any, Any, None], name: str, counters: Counters) -> asyncio.Task[None]:
    """A task that runs for ever; if it ends by an error, that is said where people look."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            counters.problem = f"the input has failed: {error!r}"
            log.error("stream %s: the input has failed", name, exc_info=error)

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(ended)
    return task


class SpoolWriter:
    """Writes to one spool, in the executor's lane `spool:NAME`.

    `restarts` gives from where each job would read after a restart.
    """

    def __init__(self, name: str, spool: Spool, executor: Executor, restarts: Restarts) -> None:
        self.spool, self.counters = spool, Counters()
        self.name, self._executor, self._restarts = name, executor, restarts
        self._lane = f"spool:{name}"
        self._queue: list[Entry] = []
        self._wake = asyncio.Event()
        self._task = watched(self._run(), name, self.counters)

    async def put(self, data: bytes, messages: int, mark: SenderMark | None = None) -> None:
        """Have whole lines written; returns when they are durable, however long that takes."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((data, messages, future, mark))
        self._wake.set()
        await future

    @property
    def waiting(self) -> bool:
        return bool(self.counters.problem)

    async def close(self) -> None:
        """Give the spool back; who waits in `put` is told that nothing is known of its lines."""
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
        if not self.spool.over:  # the disk is full, not the spool
            return False
        restarts = await self._restarts()
        return await self._executor.run(self._lane, lambda: self.spool.give_up_read(restarts))

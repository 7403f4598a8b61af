"""Queues of tasks on an agent's event loop: the requests for one job run one after the other.

Owns the tasks and their order, and does not depend on their content. Jobs do not wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

log = logging.getLogger("elf.worker")
Command: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class TaskQueue:
    """Queues of tasks by job.

    Args:
        fatal: called with an error of any task; it must end the agent.
    """

    def __init__(self, fatal: Callable[[BaseException], None]) -> None:
        self._fatal = fatal
        self._waiting: dict[bytes, deque[Command]] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._closing = False

    def busy(self, job: bytes) -> bool:
        return job in self._waiting

    @property
    def idle(self) -> bool:
        """Return whether no task of a job is running or queued."""
        return not self._waiting

    def command(self, job: bytes, command: Command) -> None:
        waiting = self._waiting.setdefault(job, deque())
        waiting.append(command)
        if len(waiting) == 1:
            self.spawn(partial(self._obey, job))

    def spawn(self, work: Command) -> None:
        """Run a task independently of the queues."""
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Start no queued task any more; running ones continue."""
        self._closing = True

    async def wait_done(self) -> None:
        """Return when all running tasks have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def kill(self) -> None:
        """Cancel all tasks."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    async def _obey(self, job: bytes) -> None:
        waiting = self._waiting[job]
        await waiting[0]()
        waiting.popleft()
        while waiting and not self._closing:
            await waiting[0]()
            waiting.popleft()
        del self._waiting[job]

    async def _guard(self, work: Command) -> None:
        try:
            await work()
        except Exception as error:
            log.exception("the worker host has failed")
            self._fatal(error)

"""Separate thread for a sink or a source that may block for long.

The agent's threads are few and shared by all streams, so a database that hangs would stop reading there. The
shutdown does not wait for this thread: its work must be safe to interrupt anywhere, as by a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Call = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class WorkerThread:
    """Thread that runs calls one at a time, in order."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._last: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._work, name=f"elf-own-{name}", daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call and return its result or raise its exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((loop, future, call))
        return await future

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """End the thread after the queued calls and a last one, which may fail; does not wait."""
        self._last = last
        self._queue.put(None)

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            loop, future, call = entry
            if future.cancelled():
                continue
            try:
                value, error = call(), None
            except BaseException as raised:
                value, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop has ended, so no caller waits for the result
                loop.call_soon_threadsafe(_settle, future, value, error)
        with contextlib.suppress(Exception):
            self._last()


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)

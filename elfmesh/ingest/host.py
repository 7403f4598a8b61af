"""Services of the host for the pump: threads and a wall clock. The simulator replaces both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Lane: TypeAlias = str
"""Name of a queue of calls: one of `OWN_LANES`, or of a stream ("read:<stream>", "work:<stream>")."""
OWN_LANES = ("compute", "bulk", "store")
SLOW = "slow:"
"""Prefix of lanes whose work waits for other processes. They have threads of their own."""

APART = "apart:"
"""Prefix of the lanes of slow jobs, which are read apart from the others. All of them share two threads, so
they never delay other jobs."""

INGEST_THREADS_MAX = 4
APART_THREADS = 2
SLOW_THREADS_MAX = 16


class Executor(Protocol):
    """Runs blocking work outside the event loop. The calls of one lane run one at a time, in order."""

    async def run(self, lane: Lane, work: Callable[[], T]) -> T: ...

    def close(self) -> None: ...


class ThreadExecutor:
    """Executor with two threads for merging ("compute", "bulk"), one for syncing ("store"), and shared pools.

    The shared threads read and evaluate streams. Each lane keeps its order, and different lanes run in
    parallel, on as many threads as there are cores, but at most `INGEST_THREADS_MAX`, to leave cores for the
    host's own work.
    """

    def __init__(self, threads: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = threads or max(2, min(cores, INGEST_THREADS_MAX))
        self._shared = ThreadPoolExecutor(count, thread_name_prefix="elf-ingest")
        self._own = {lane: ThreadPoolExecutor(1, thread_name_prefix=f"elf-{lane}") for lane in OWN_LANES}
        self._slow = ThreadPoolExecutor(SLOW_THREADS_MAX, thread_name_prefix="elf-slow")
        self._slowed = ThreadPoolExecutor(APART_THREADS, thread_name_prefix="elf-apart")
        self._lanes: dict[Lane, _SharedLane] = {}

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Run the call in the lane's own thread, or in a shared thread when it is the lane's turn."""
        if lane in self._own:
            return await asyncio.get_running_loop().run_in_executor(self._own[lane], work)
        if lane not in self._lanes:
            kinds = {SLOW: self._slow, APART: self._slowed}
            pool = next((pool for kind, pool in kinds.items() if lane.startswith(kind)), self._shared)
            self._lanes[lane] = _SharedLane(pool)
        return await asyncio.wrap_future(self._lanes[lane].submit(work))

    @property
    def waiting(self) -> dict[str, int]:
        """Return the number of calls that wait for a thread or for their turn, by kind."""
        pools = {
            "ingest": self._shared,
            "slow": self._slow,
            "apart": self._slowed,
            "store": self._own["store"],
        }
        return {f"thread_{name}": pool._work_queue.qsize() for name, pool in pools.items()}

    def close(self) -> None:
        """Wait for running calls and cancel the others."""
        for pool in (self._shared, self._slow, self._slowed, *self._own.values()):
            pool.shutdown(wait=True, cancel_futures=True)


class _SharedLane:
    """Lane in a shared pool: its calls run one at a time, in order, in any free thread."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Queue a call; never blocks."""
        future: Future[T] = Future()
        with self._lock:
            self._queue.append((future, work))
            if self._busy:
                return future
            self._busy = True
        self._pool.submit(self._next)
        return future

    def _next(self) -> None:
        with self._lock:
            future, work = self._queue.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
        with self._lock:
            more = self._busy = bool(self._queue)
        if more:
            with contextlib.suppress(RuntimeError):  # the pool is shutting down
                self._pool.submit(self._next)


class InlineExecutor:
    """Executor of the simulator: runs work in the event loop, because threads would make the order random."""

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Run the call after one iteration of the loop, like the result of a thread."""
        await asyncio.sleep(0)
        return work()

    def close(self) -> None: ...


def wall_clock_us() -> int:
    return time.time_ns() // 1000

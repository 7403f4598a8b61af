"""An asyncio event loop whose time is a number: the real pump, faster than real time, the same every time.

Time jumps to the next timer when nothing is ready. There is no input or output: a loop with nothing scheduled
is a deadlock and says so. Everything runs on one thread in the order asyncio's own queues give, which depends
on the order of calls only, so equal seeds give equal traces under any hash seed.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Nothing is ready and nothing is scheduled: the simulation would wait for ever."""


class _TimeSelector(selectors.SelectSelector):
    """Instead of waiting for a file, moves the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("every task of the simulation waits for something that nobody will do")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` starts at 0."""

    def __init__(self) -> None:
        self._time = _TimeSelector()
        super().__init__(self._time)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._time.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a fresh virtual loop, then cancel what it left behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

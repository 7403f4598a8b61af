"""An asyncio event loop whose time is a number: the real pump, faster than real time, the same every time.

Time jumps to the next timer when nothing is ready. There is no input or output: a loop with nothing scheduled
is a deadlock and says so. Everything runs on one thread in the order asyncio's own queues give, which depends
on the order of calls only, so equal seeds give equal traces under any hash seed.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
SAME_TIME_S = 1e-9
"""Timers so close together are due at once."""


class DeadlockError(RuntimeError):
    """Nothing is ready and nothing is scheduled: the simulation would wait for ever."""


class Call(asyncio.TimerHandle):
    """A callback of the loop, as asyncio's handles but without contexts, which nothing here has."""

    __slots__ = ()
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _cancelled: bool
    _when: float

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._when, self._callback, self._args, self._cancelled = when, callback, args, False

    def cancel(self) -> None:
        self._callback, self._args, self._cancelled = _nothing, (), True


def _nothing() -> None:
    pass


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` starts at 0. Timers of the same moment fire in the order they were set."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self._now = 0.0
        self._serial = 0
        self._timers: list[tuple[float, int, Call]] = []
        self._calls: deque[Call] = deque()
        self._stopping: bool

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Call:
        call = Call(self._now, callback, args)
        self._calls.append(call)
        return call

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Call:
        return self.call_soon(callback, *args)  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Call:
        call = Call(when := self._now + delay, callback, args)
        self._serial += 1
        heappush(self._timers, (when, self._serial, call))
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Call:
        call = Call(when, callback, args)
        self._serial += 1
        heappush(self._timers, (when, self._serial, call))
        return call

    def _run_once(self) -> None:
        """One turn, as asyncio has it, but without a selector: nothing ever waits for a file."""
        timers, ready = self._timers, self._calls
        if not ready and not self._stopping:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise DeadlockError("every task of the simulation waits for something that no task will do")
            self._now = max(self._now, timers[0][0])
        end = self._now + SAME_TIME_S
        while timers and timers[0][0] < end:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):  # what these schedule has its turn in the next
            call = ready.popleft()
            if call._cancelled:
                continue
            try:
                call._callback(*call._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": "a callback has failed", "exception": error})

    def close(self) -> None:
        self._timers.clear()
        self._calls.clear()
        super().close()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a fresh virtual loop, then cancel what it left behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

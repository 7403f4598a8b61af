"""Return of freed memory from the C library to the system.

glibc keeps free memory between allocated blocks. After some hundred MB of input, a process is 20 to 30 MB
larger than its data. On other C libraries the functions do nothing.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

GIVE_BACK_S = 5.0
"""Minimum time between two returns, because pages that are needed again soon cause page faults."""


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


_trim = _find_trim()


def give_back() -> None:
    """Return free pages to the system. Cost: 0.5 to 10 ms, and page faults when they are needed again."""
    if _trim is not None:
        _trim(0)


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def own_rss_bytes() -> int | None:
    """Return the resident memory of this process; None if the system does not report it."""
    try:
        return rss_bytes(os.getpid())
    except OSError:
        return None


class Seldom:
    """Call of a function at most once in `every_s` seconds. Thread-safe."""

    def __init__(
        self,
        work: Callable[[], None] = give_back,
        every_s: float = GIVE_BACK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work, self._every_s, self._clock = work, every_s, clock
        self._lock = threading.Lock()
        self._next_s = -1.0

    def __call__(self) -> None:
        """Call the function unless `every_s` seconds have not passed since the last call."""
        with self._lock:
            now = self._clock()
            if now < self._next_s:
                return
            self._next_s = now + self._every_s
        self._work()

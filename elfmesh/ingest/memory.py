"""Giving freed memory back to the system, where the C library keeps it.

glibc keeps the holes between blocks of all sizes: after a few hundred MB of input a process is 20 to 30 MB
larger than what it holds. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

GIVE_BACK_S = 5.0
"""How often an agent gives pages back at most: pages that are wanted again at once would only cost faults."""


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


_trim = _find_trim()


def give_back() -> None:
    """Return free pages to the system. Cost: 0.5 to 10 ms, and faults when they are needed again."""
    if _trim is not None:
        _trim(0)


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; Linux only."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def own_rss_bytes() -> int | None:
    """Resident memory of this process; None where the system does not say."""
    try:
        return rss_bytes(os.getpid())
    except OSError:
        return None


class Seldom:
    """Does something when asked, but at most once in `every_s` seconds. Safe in several threads."""

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
        """Do it, unless it was done a moment ago."""
        with self._lock:
            now = self._clock()
            if now < self._next_s:
                return
            self._next_s = now + self._every_s
        self._work()

"""Freed memory: what the C library returns to the system, and what it keeps for the next block.

glibc keeps free memory between allocated blocks. After some hundred MB of input, a process is 20 to 30 MB
larger than its data. But it returns each freed block of some MB at once, and the next block then costs a page
fault for each 4 kB of it. On other C libraries the functions do nothing.
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


KEPT_BYTES = 32 << 20
"""Free memory that `keep_freed` keeps, and the largest block that it keeps: the most that glibc accepts."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""


def _find(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found


_trim, _mallopt = _find("malloc_trim"), _find("mallopt")


def keep_freed() -> None:
    """Keep freed blocks for the next ones, until `give_back`. For a process that reads logs and then ends.

    The setting is of the whole process, so a library must not change it in a process that is not its own.
    """
    if _mallopt is not None:
        _mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        _mallopt(_TRIM_THRESHOLD, KEPT_BYTES)


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

"""Memory that a call takes, for tests that limit it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_bytes(work: Callable[[], object], limit: float) -> int:
    """Return the most bytes that Python and numpy hold at once for `work`.

    `work` runs up to three times while it is over `limit`, because threads that earlier tests left in this
    process may allocate too. They can only add to the peak, so the least one counts.
    """
    least = 0
    for _ in range(3):
        tracemalloc.start()
        try:
            work()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        least = min(least or peak, peak)
        if least < limit:
            break
    return least

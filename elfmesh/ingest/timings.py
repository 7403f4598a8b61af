"""Histograms of durations. They are always counted, and written on request.

There is one set per process, because the timed code is in rooms that do not depend on the agent. `observe` is
thread-safe and costs about a microsecond; a race can lose a count.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    """Counts by bound, and their sum. `counts` has one more element than `BOUNDS_S`, for longer durations."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += max(0.0, seconds)


NAMES = {
    "poll": "Reading and parsing the new lines of a stream.",
    "evaluate": "Feeding one poll of a stream to its jobs.",
    "seal": "Sealing the intervals of a job that are due, with their encoding.",
    "frame_log_sync": "Making sealed contributions durable.",
    "store_sync": "Making votes, state and results durable.",
    "merge": "Merging contributions of several agents.",
    "finalise": "The last step of an interval at its master: having, order, limit.",
    "close_lag": "From the end of an interval to its closing, at its master.",
    "loop_lag": "How late the event loop runs a timer, measured once a second.",
}
"""Names of the histograms with their descriptions."""

TIMINGS: dict[str, Histogram] = {name: Histogram() for name in NAMES}


def observe(name: str, seconds: float) -> None:
    TIMINGS[name].observe(seconds)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Measure the duration of a block, also if it raises."""
    began = time.perf_counter()
    try:
        yield
    finally:
        TIMINGS[name].observe(time.perf_counter() - began)

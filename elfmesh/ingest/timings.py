"""How long things took, as histograms: counted always, written out on request.

One set for each process, because what is timed is deep inside rooms that do not know an agent. `observe` is
safe in any thread and costs a microsecond; a race loses a count, never a total order.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    """Counts by bound, their sum; `counts` has one more than `BOUNDS_S`, for what is longer."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += max(0.0, seconds)


NAMES = {
    "poll": "Reading and parsing what a stream has grown by.",
    "evaluate": "Feeding one poll of a stream to its jobs.",
    "seal": "Sealing the intervals of a job that are due, with their encoding.",
    "frame_log_sync": "Making sealed contributions durable.",
    "store_sync": "Making votes, state and results durable.",
    "merge": "Merging contributions of several agents.",
    "finalise": "The last step of an interval at its master: having, order, limit.",
    "close_lag": "From the end of an interval to its closing, at its master.",
    "loop_lag": "How much later than asked for the event loop came back, once a second.",
}
"""Everything that is timed: name -> what it is."""

TIMINGS: dict[str, Histogram] = {name: Histogram() for name in NAMES}


def observe(name: str, seconds: float) -> None:
    TIMINGS[name].observe(seconds)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Time what is done within, also if it fails."""
    began = time.perf_counter()
    try:
        yield
    finally:
        TIMINGS[name].observe(time.perf_counter() - began)

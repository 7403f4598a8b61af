"""Yielding: a job that is read apart waits while other jobs of its agent close an interval.

The computation between the end of a window and its publication delays the result. Jobs apart wake at the same
moments, because windows end together, so they let the others go first. Owns only arithmetic; the times come
from outside.

Invariant: a job that has waited for PATIENCE_S without a block gets one, so there is always progress.

Paper: 4.3, jobs do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

CLOSING_S = 0.05
"""Time from a window's end to its published record, on an otherwise idle agent: slightly more than 25 ms."""

BLOCK_S = 0.01
"""Minimum time of a block."""

TIMES = 2
"""Ratio of a block's wall-clock time to its processor time, with two threads that compete."""

PATIENCE_S = 0.2


class Closes(Protocol):
    """Interface of a read loop that closes intervals: `elfmesh.ingest.read_loop.Ingest`.

    Attributes:
        due_us: wall-clock time at which it may close the next interval, None: unknown.
        sealed_s: time of its last seal, by the event loop's clock.
    """

    due_us: int | None
    sealed_s: float


class Yielding:
    """Rule by which one job gives way to others.

    Args:
        others: the read loops that have priority.
        wall_us: wall clock.
    """

    def __init__(self, others: Callable[[], Iterable[Closes]], wall_us: Callable[[], int]) -> None:
        self._others, self._wall_us = others, wall_us
        self._since_s: float | None = None

    def delay_s(self, now_s: float, block_s: float) -> float:
        """Return how long to wait before a block that takes about `block_s` of a processor; 0: no wait.

        Cost: a few operations for each of the others.
        """
        wait_s = max(
            (self._until_s(each, now_s, TIMES * max(block_s, BLOCK_S)) for each in self._others()),
            default=0.0,
        )
        if wait_s <= 0.0:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s >= PATIENCE_S:
            self._since_s, wait_s = None, 0.0
        return wait_s

    def _until_s(self, other: Closes, now_s: float, block_s: float) -> float:
        wait_s = max(0.0, other.sealed_s + CLOSING_S - now_s)
        if other.due_us is not None:
            ahead_s = (other.due_us - self._wall_us()) / 1e6
            if -CLOSING_S < ahead_s <= block_s:
                wait_s = max(wait_s, ahead_s + CLOSING_S)
        return wait_s

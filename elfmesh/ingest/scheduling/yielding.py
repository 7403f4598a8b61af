"""When a job that is read by itself stands back: while the others of its agent close an interval.

A result is late by what was computed between the moment at which its window may close and its publication.
A job apart wakes at such moments too, since windows end together; it lets the others go first. Owns the
arithmetic; moments come from outside.

Invariant: a job that stands back for PATIENCE_S without a block gets one: there is always progress.

Paper: 4.3, jobs do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

CLOSING_S = 0.05
"""From a window's end to its published record, on an agent that has nothing else to do: 25 ms and some."""

BLOCK_S = 0.01
"""What a block takes at least."""

TIMES = 2
"""By the clock a block takes as many times its processor time, where there are as many who want one."""

PATIENCE_S = 0.2


class Closes(Protocol):
    """What closes intervals: `elfmesh.ingest.read_loop.Ingest`.

    Attributes:
        due_us: the next moment of the wall clock at which it may close one, None: not known.
        sealed_s: when it has sealed one last, by the loop's clock.
    """

    due_us: int | None
    sealed_s: float


class Yielding:
    """See the module; one for each who stands back.

    Args:
        others: to whom it does.
        wall_us: wall clock.
    """

    def __init__(self, others: Callable[[], Iterable[Closes]], wall_us: Callable[[], int]) -> None:
        self._others, self._wall_us = others, wall_us
        self._since_s: float | None = None

    def delay_s(self, now_s: float, block_s: float) -> float:
        """How long to wait before a block is begun that takes about `block_s` of a processor; 0: not at all.

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

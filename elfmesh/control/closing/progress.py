"""How far any member was ever seen, and when: what makes an interval of a job due.

Owns the moments; knows no member and no deadline. Invariant: intervals and moments only grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

SEEN_MAX = 4096
"""Moments that are told apart; beyond them the last one is moved."""


class FrontierHistory:
    """The frontiers of one job, by the moment at which each was first seen."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque()

    @property
    def frontier(self) -> int | None:
        """One past the highest interval that any member has sealed, None before the first seal."""
        return self._seen[-1][0] if self._seen else None

    @property
    def last(self) -> int:
        return self._seen[-1][0]

    def passed(self, stop: int, now: float) -> None:
        """A member has sealed everything below `stop`."""
        if self._seen and stop <= self._seen[-1][0]:
            return
        if len(self._seen) >= SEEN_MAX:
            self._seen[-1] = (stop, self._seen[-1][1])
        else:
            self._seen.append((stop, now))

    def since(self, interval: int) -> float | None:
        """When a member was first seen beyond this interval, None if none was. Cost: O(log moments)."""
        place = bisect_right(self._seen, interval, key=lambda each: each[0])
        return self._seen[place][1] if place < len(self._seen) else None

    def drop_below(self, interval: int) -> None:
        """Everything below is decided; the frontier is kept."""
        while len(self._seen) > 1 and self._seen[0][0] <= interval:
            self._seen.popleft()

"""Progress of a job: the highest frontier of any member, over time. An interval is due from then on.

Owns the times; does not depend on members or deadlines. Invariant: intervals and times only grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

SEEN_MAX = 4096
"""Maximum number of stored frontiers; beyond it the newest one replaces the last."""


class FrontierHistory:
    """Highest frontiers of one job, with the time at which each was first reached."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque()

    @property
    def frontier(self) -> int | None:
        """One past the highest interval that any member has sealed; None before the first seal."""
        return self._seen[-1][0] if self._seen else None

    @property
    def last(self) -> int:
        return self._seen[-1][0]

    def passed(self, stop: int, now: float) -> None:
        """Record that a member has sealed all intervals below `stop`."""
        if self._seen and stop <= self._seen[-1][0]:
            return
        if len(self._seen) >= SEEN_MAX:
            self._seen[-1] = (stop, self._seen[-1][1])
        else:
            self._seen.append((stop, now))

    def since(self, interval: int) -> float | None:
        """Return when the first member passed this interval; None: none has. Cost: O(log n)."""
        place = bisect_right(self._seen, interval, key=lambda each: each[0])
        return self._seen[place][1] if place < len(self._seen) else None

    def drop_below(self, interval: int) -> None:
        """Forget the times of decided intervals; the frontier is kept."""
        while len(self._seen) > 1 and self._seen[0][0] <= interval:
            self._seen.popleft()

"""When the trees are told to wait no longer, and whether what they held back has had its time to come.

Owns the orders to hasten and their pace; who is missing and what is decided about it is the closer's.

Invariant: an order covers every interval below its end; what is held back of an interval has its time from
the first order that covers it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

HASTEN_S = 1.0
"""The shortest pause between two orders of a job that waits for stragglers or corrects."""

NEVER = float("inf")


class FlushOrders:
    """The orders to hasten of one master.

    Args:
        order: tells all trees not to wait below an interval.
        deadline_s: of the job.
        lead_s: so long before a deadline trees are told, and so long what comes then has; 0: at the deadline.
    """

    def __init__(self, order: Callable[[int], None], deadline_s: float, lead_s: float) -> None:
        self._order, self._deadline_s, self._lead_s = order, deadline_s, lead_s
        self._pause_s = lead_s / 4 if lead_s else max(HASTEN_S, deadline_s)
        self._orders: deque[tuple[int, float]] = deque()
        self._last = float("-inf")

    def now(self, stop: int, now: float) -> None:
        """Give an order unless the last one is fresh."""
        if now - self._last >= self._pause_s:
            self._last = now
            self._orders.append((stop, now))
            self._order(stop)

    def uncovered(self, interval: int) -> int:
        return max(interval, self._orders[-1][0]) if self._orders else interval

    def ahead(self, stop: int, due: float | None, now: float) -> float:
        """Give an order before the deadline of the oldest interval that lacks one, if the job has a lead.

        The oldest: what comes after it would put the order off as often as a member gets further.

        Args:
            stop: one past the newest interval.
            due: since when the oldest interval is due that no order covers, None if there is none.
            now: the time.

        Returns:
            When this is to be asked again.
        """
        if not self._lead_s or due is None:
            return NEVER
        wanted_at = max(self._last + self._pause_s, due + self._deadline_s - self._lead_s)
        if wanted_at > now:
            return wanted_at
        self.now(stop, now)
        return NEVER

    def waited(self, interval: int, now: float) -> bool:
        since = next((when for stop, when in self._orders if stop > interval), now)
        return now - since >= self._lead_s

    def drop_below(self, interval: int) -> None:
        while self._orders and self._orders[0][0] <= interval:
            self._orders.popleft()

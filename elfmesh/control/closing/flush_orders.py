"""Flush orders: the master's orders to the trees to forward intervals without the missing children.

Owns the times of the orders. The interval closer decides about missing members.

Invariant: an order covers every interval below its end. Contributions that trees held back have `lead_s` from
the first order that covers their interval to arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

HASTEN_S = 1.0
"""Minimum pause between two orders of a job with the straggler policy wait or correct."""

NEVER = float("inf")


class FlushOrders:
    """Flush orders of one master.

    Args:
        order: sends all trees the order not to wait below an interval.
        deadline_s: deadline of the job.
        lead_s: time before a deadline at which the order is sent; contributions have as long to arrive.
            0: the order is sent at the deadline.
    """

    def __init__(self, order: Callable[[int], None], deadline_s: float, lead_s: float) -> None:
        self._order, self._deadline_s, self._lead_s = order, deadline_s, lead_s
        self._pause_s = lead_s / 4 if lead_s else max(HASTEN_S, deadline_s)
        self._orders: deque[tuple[int, float]] = deque()
        self._last = float("-inf")

    def now(self, stop: int, now: float) -> None:
        """Send an order, unless the pause after the last one is not over."""
        if now - self._last >= self._pause_s:
            self._last = now
            self._orders.append((stop, now))
            self._order(stop)

    def uncovered(self, interval: int) -> int:
        return max(interval, self._orders[-1][0]) if self._orders else interval

    def ahead(self, stop: int, due: float | None, now: float) -> float:
        """Send an order before the deadline of the oldest uncovered interval, if the job has a lead.

        The deadline is that of the oldest interval, because a later one would postpone the order with each
        frontier that a member reports.

        Args:
            stop: one past the newest interval.
            due: since when the oldest interval without an order is due; None if there is none.
            now: the time.

        Returns:
            When to call this again.
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

"""Addresses that could not be reached are left alone for a while that grows with every failure.

Plain bookkeeping on times that are handed in.
"""

from __future__ import annotations

Address = tuple[str, int]
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.2, 5.0
BACKOFFS_MAX = 4096
"""Addresses that are left alone for a while; of more, the oldest are forgotten."""

KEPT_S = 60.0
"""A failure so long ago says nothing of the next attempt."""


class Backoff:
    """See the module."""

    def __init__(self) -> None:
        self._until: dict[Address, tuple[float, float]] = {}  # address: (not before, last wait)

    def __len__(self) -> int:
        return len(self._until)

    def holds(self, address: Address, now: float) -> bool:
        return self._until.get(address, (0.0, 0.0))[0] > now

    def failed(self, address: Address, now: float) -> None:
        """It could not be reached once more: wait twice as long as last time."""
        _, last = self._until.get(address, (0.0, 0.0))
        wait = min(BACKOFF_MAX_S, max(BACKOFF_MIN_S, 2 * last))
        self._until[address] = (now + wait, wait)
        if len(self._until) > BACKOFFS_MAX:
            del self._until[next(iter(self._until))]

    def reached(self, address: Address) -> None:
        self._until.pop(address, None)

    def sweep(self, now: float) -> None:
        for address in [each for each, (until, _) in self._until.items() if until + KEPT_S < now]:
            del self._until[address]

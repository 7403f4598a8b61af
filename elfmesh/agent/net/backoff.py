"""Delays connections to unreachable addresses, longer after each failure. The caller passes the time."""

from __future__ import annotations

Address = tuple[str, int]
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.2, 5.0
BACKOFFS_MAX = 4096
"""Maximum number of delayed addresses; beyond it, the oldest are removed."""

KEPT_S = 60.0
"""A failure that is older than this does not count for the next attempt."""


class Backoff:
    """Addresses that must not be contacted before a certain time."""

    def __init__(self) -> None:
        self._until: dict[Address, tuple[float, float]] = {}  # address: (not before, last wait)

    def __len__(self) -> int:
        return len(self._until)

    def holds(self, address: Address, now: float) -> bool:
        return self._until.get(address, (0.0, 0.0))[0] > now

    def failed(self, address: Address, now: float) -> None:
        """Record a failure: the next delay is twice the last one."""
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

"""How far this agent's wall clock is from those of its peers, estimated on heartbeats (D-13).

Owns the estimates, one per watched peer. Nothing decides by them: they are shown, so that people see whose
clock is wrong before its records come too late or too early.

An answer to a heartbeat says what the other clock showed; half of the round trip later it is here. The error
is at most half of the round trip. Who only answers learns the estimate from the next heartbeat.

Paper: none; Cristian 1989, without the retries.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

US = 1_000_000


class Skew:
    """The clocks of the watched peers.

    Args:
        clock_us: this agent's wall clock in microseconds UTC; 0: it has none.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.clock_us = clock_us
        self._asked_at: dict[bytes, float] = {}
        self._ahead_us: dict[bytes, int] = {}

    def asked(self, peer: bytes, now: float) -> None:
        """A heartbeat leaves."""
        self._asked_at[peer] = now

    def answered(self, peer: bytes, theirs_us: int, now: float) -> None:
        """Its answer is here, and says what the other clock showed; 0: nothing."""
        asked_at, mine_us = self._asked_at.pop(peer, None), self.clock_us()
        if asked_at is not None and theirs_us and mine_us:
            self._ahead_us[peer] = theirs_us + round((now - asked_at) / 2 * US) - mine_us

    def told(self, peer: bytes, ahead_us: int) -> None:
        """A peer that watches us says by how much our clock is ahead of its own."""
        self._ahead_us[peer] = -ahead_us

    def ahead_us(self, peer: bytes) -> int | None:
        """By how much a peer's clock is ahead of ours, None if that is not known."""
        return self._ahead_us.get(peer)

    def forget(self, peer: bytes) -> None:
        """The peer is not watched any more."""
        self._asked_at.pop(peer, None)
        self._ahead_us.pop(peer, None)

    @property
    def seconds(self) -> float | None:
        """By how much this clock is ahead of the median of the peers', None if none is known."""
        if not self._ahead_us:
            return None
        return -median(self._ahead_us.values()) / US

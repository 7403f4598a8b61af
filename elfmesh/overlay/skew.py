"""Skew: the difference between this agent's wall clock and those of its peers, measured by heartbeats (D-13).

Owns the estimates, one per peer. Operators can see a wrong clock before its records are late or early. An
agent's clock moves the watermarks of silent sources no further than `peers_us`.

An answer to a heartbeat contains the other clock, half a round trip old. The error is at most half of the
round trip. An end that only answers learns the estimate from the next heartbeat.

Invariant: `peers_us` depends only on the peers' clocks and on the monotonic clock, so that it stays correct
when this agent's wall clock is set.

Paper: none; Cristian 1989, without the retries.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median_high, median_low

US = 1_000_000

KEPT_S = 3600.0
"""Time for which a peer's clock is remembered. An isolated agent has forgotten its peers after seconds, and
still needs their clocks."""

CLOCKS_MAX = 64
"""Maximum number of clocks that are remembered, the newest ones."""


class Skew:
    """Clocks of the peers.

    Args:
        clock_us: this agent's wall clock in microseconds UTC; 0: it has none.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.clock_us = clock_us
        self._asked_at: dict[bytes, float] = {}
        self._ahead_us: dict[bytes, int] = {}
        self._shown_us: dict[bytes, int] = {}
        """By peer: this agent's wall clock at its last answer to the peer, minus the monotonic time."""
        self._clocks: dict[bytes, tuple[float, int]] = {}
        """By peer: when its clock was received, and its value minus the monotonic time."""
        self._median: tuple[float, int] | None = None

    def asked(self, peer: bytes, now: float) -> None:
        self._asked_at[peer] = now

    def answered(self, peer: bytes, theirs_us: int, now: float) -> None:
        """Process the peer's clock in its answer to a heartbeat; 0: it has none."""
        asked_at, mine_us = self._asked_at.pop(peer, None), self.clock_us()
        if asked_at is None or not theirs_us:
            return
        theirs_now_us = theirs_us + round((now - asked_at) / 2 * US)
        self._seen(peer, theirs_now_us - round(now * US), now)
        if mine_us:
            self._ahead_us[peer] = theirs_now_us - mine_us

    def answering(self, peer: bytes, ahead_us: int | None, now: float) -> None:
        """Record an answer to a peer's heartbeat.

        The heartbeat says how far our clock was ahead in the last answer.
        """
        mine_us = self.clock_us()
        if not mine_us:
            return
        shown_us = mine_us - round(now * US)
        before_us, self._shown_us[peer] = self._shown_us.get(peer, shown_us), shown_us
        if ahead_us is not None:
            self._ahead_us[peer] = -ahead_us
            self._seen(peer, before_us - ahead_us, now)

    def _seen(self, peer: bytes, clock_us: int, now: float) -> None:
        self._clocks.pop(peer, None)
        self._clocks[peer] = (now, clock_us)
        while len(self._clocks) > CLOCKS_MAX or now - next(iter(self._clocks.values()))[0] > KEPT_S:
            del self._clocks[next(iter(self._clocks))]
        self._median = (now, median_high(each for _, each in self._clocks.values()))

    def peers_us(self, now: float) -> int | None:
        """Return the median of the peers' clocks, None if none is known. Thread-safe.

        For an even number of peers it is the upper one of the two middle clocks, because this agent's own
        clock counts as well: one of two peers with a slow clock must not delay this agent.
        """
        seen = self._median
        if seen is None or now - seen[0] > KEPT_S:
            return None
        return seen[1] + round(now * US)

    def ahead_us(self, peer: bytes) -> int | None:
        """Return how far a peer's clock is ahead of ours, None if unknown."""
        return self._ahead_us.get(peer)

    def forget(self, peer: bytes) -> None:
        self._asked_at.pop(peer, None)
        self._ahead_us.pop(peer, None)
        self._shown_us.pop(peer, None)

    @property
    def seconds(self) -> float | None:
        """Return how far this clock is ahead of the median of the peers', None if none is known.

        For an even number of peers it is the middle clock that is nearer to this one, because this one counts
        as well: a right clock beside a right and a wrong one is not wrong.
        """
        clocks = self._ahead_us.values()
        return -min(median_low(clocks), median_high(clocks), key=abs) / US if clocks else None

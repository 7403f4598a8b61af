"""How far this agent's wall clock is from those of its peers, estimated on heartbeats (D-13).

Owns the estimates, one per peer. People see them, so that a wrong clock is known before its records come too
late or too early. The clock of a quiet agent moves its watermarks no further than `peers_us`.

An answer to a heartbeat says what the other clock showed; half of the round trip later it is here. The error
is at most half of the round trip. Who only answers learns the estimate from the next heartbeat.

Invariant: `peers_us` rests on the peers' clocks and on the monotonic clock alone, so that it stays right when
this agent's wall clock is set.

Paper: none; Cristian 1989, without the retries.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, median_high

US = 1_000_000

KEPT_S = 3600.0
"""How long a peer's clock is remembered. An agent that is cut off has forgotten its peers after seconds, and
its clock is still the one that they knew."""

CLOCKS_MAX = 64
"""Clocks remembered at a time, the newest ones."""


class Skew:
    """The clocks of the peers.

    Args:
        clock_us: this agent's wall clock in microseconds UTC; 0: it has none.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.clock_us = clock_us
        self._asked_at: dict[bytes, float] = {}
        self._ahead_us: dict[bytes, int] = {}
        self._shown_us: dict[bytes, int] = {}
        """By peer: our wall clock at the last answer to it, less the monotonic time."""
        self._clocks: dict[bytes, tuple[float, int]] = {}
        """By peer: when its clock was seen, and what it showed less the monotonic time."""
        self._median: tuple[float, int] | None = None

    def asked(self, peer: bytes, now: float) -> None:
        self._asked_at[peer] = now

    def answered(self, peer: bytes, theirs_us: int, now: float) -> None:
        """Its answer is here, and says what the other clock showed; 0: nothing."""
        asked_at, mine_us = self._asked_at.pop(peer, None), self.clock_us()
        if asked_at is None or not theirs_us:
            return
        theirs_now_us = theirs_us + round((now - asked_at) / 2 * US)
        self._seen(peer, theirs_now_us - round(now * US), now)
        if mine_us:
            self._ahead_us[peer] = theirs_now_us - mine_us

    def answering(self, peer: bytes, ahead_us: int | None, now: float) -> None:
        """A peer that watches us is answered; it says by how much our clock was ahead in our last answer."""
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
        """What the median of the peers' clocks shows, None if none is known. Any thread may ask.

        Of an even number of peers it is the upper one of the two in the middle: this agent's own clock counts
        as well, and one of two peers whose clock is behind must not hold this agent back.
        """
        seen = self._median
        if seen is None or now - seen[0] > KEPT_S:
            return None
        return seen[1] + round(now * US)

    def ahead_us(self, peer: bytes) -> int | None:
        """By how much a peer's clock is ahead of ours, None if that is not known."""
        return self._ahead_us.get(peer)

    def forget(self, peer: bytes) -> None:
        self._asked_at.pop(peer, None)
        self._ahead_us.pop(peer, None)
        self._shown_us.pop(peer, None)

    @property
    def seconds(self) -> float | None:
        """By how much this clock is ahead of the median of the peers', None if none is known."""
        if not self._ahead_us:
            return None
        return -median(self._ahead_us.values()) / US

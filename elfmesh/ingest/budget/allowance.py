"""Token bucket of processor time: the clock fills it, and work empties it.

Owns only arithmetic; the caller provides the clock and the cost of work. The result is a delay before the
next piece of work; running work is never interrupted.

Invariants: in any t seconds, no more than `cores * (t + BURST_S)` plus one piece of work begins. A job waits
at most OVERDRAFT_S, so even a tiny allowance permits progress and a moving watermark.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Callable

BURST_S = 0.5
"""Seconds of filling that can be saved, so that a burst of lines after silence is read at once."""

OVERDRAFT_S = 2.0
"""Maximum delay; the cost of a piece of work beyond it is forgiven."""


class Allowance:
    """Token bucket of processor time. Several threads may use it; a race only costs a little accuracy.

    Args:
        cores: rate of filling, in processor seconds per second.
        clock: monotonic seconds.
    """

    def __init__(self, cores: float, clock: Callable[[], float]) -> None:
        if not cores > 0:
            raise ValueError("an allowance must be positive")
        self.cores, self._clock = cores, clock
        self._at = clock()
        self._level_s = cores * BURST_S

    def charge(self, cpu_s: float) -> None:
        now = self._clock()
        filled = self._level_s + (now - self._at) * self.cores
        self._at = now
        self._level_s = max(min(filled, self.cores * BURST_S) - cpu_s, -self.cores * OVERDRAFT_S)

    @property
    def delay_s(self) -> float:
        """Return how long to wait before more work begins; 0: no wait."""
        return max(0.0, -self._level_s / self.cores - (self._clock() - self._at))


class ProcessAllowance:
    """Token bucket for a whole process; the used time is read from the system.

    Args:
        cores, clock: as in `Allowance`.
        used_s: processor seconds of all threads so far.
    """

    def __init__(self, cores: float, clock: Callable[[], float], used_s: Callable[[], float]) -> None:
        self._allowance = Allowance(cores, clock)
        self._used_s, self._seen_s = used_s, used_s()
        self.cores = cores

    @property
    def delay_s(self) -> float:
        """Return how long to wait before more work begins. Cost: one system call."""
        used_s = self._used_s()
        self._allowance.charge(used_s - self._seen_s)
        self._seen_s = used_s
        return self._allowance.delay_s

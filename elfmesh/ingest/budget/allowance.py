"""How much processor time may still be used: a bucket that fills with the clock and is emptied by work.

Owns arithmetic only; the clock and what work cost come from outside. What it says is a delay: no job is
stopped in the middle of anything, the next piece of work waits.

Invariants: over any stretch of t seconds no more than `cores * (t + BURST_S)` plus one piece of work begins;
a job waits at most DEBT_S: even with a tiny allowance there is progress, and a watermark that moves.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Callable

BURST_S = 0.5
"""Seconds of filling that may be saved up: a burst of lines after silence is read at once."""

OVERDRAFT_S = 2.0
"""The longest that a job waits: what a piece of work cost beyond that is forgiven."""


class Allowance:
    """See the module. Used by several threads: a race costs a little accuracy, nothing else.

    Args:
        cores: how fast it fills, in processor seconds per second.
        clock: seconds that never go back.
    """

    def __init__(self, cores: float, clock: Callable[[], float]) -> None:
        if not cores > 0:
            raise ValueError("an allowance must be positive")
        self.cores, self._clock = cores, clock
        self._at = clock()
        self._level_s = cores * BURST_S

    def charge(self, cpu_s: float) -> None:
        """Work was done that cost so much."""
        now = self._clock()
        filled = self._level_s + (now - self._at) * self.cores
        self._at = now
        self._level_s = max(min(filled, self.cores * BURST_S) - cpu_s, -self.cores * OVERDRAFT_S)

    @property
    def delay_s(self) -> float:
        """How long to wait before more is begun; 0: not at all."""
        return max(0.0, -self._level_s / self.cores - (self._clock() - self._at))


class ProcessAllowance:
    """The same for a whole process: what it used is read from the system, not told.

    Args:
        cores, clock: as above.
        used_s: processor seconds of all its threads so far.
    """

    def __init__(self, cores: float, clock: Callable[[], float], used_s: Callable[[], float]) -> None:
        self._allowance = Allowance(cores, clock)
        self._used_s, self._seen_s = used_s, used_s()
        self.cores = cores

    @property
    def delay_s(self) -> float:
        """How long to wait before more is begun. Cost: one system call."""
        used_s = self._used_s()
        self._allowance.charge(used_s - self._seen_s)
        self._seen_s = used_s
        return self._allowance.delay_s

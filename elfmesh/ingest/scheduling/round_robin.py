"""Turns of the read loops of one agent: which of them reads next, how much, and which job delays others.

The jobs of a stream share every read, so a line is parsed once for all of them: their loop has a turn
whenever it asks. Jobs that are read apart have their turns by deficit round robin over processor seconds: a
turn is a block that should cost a quantum; a loop whose blocks cost more is passed over until the others have
had as much. Loops apart also wait while a shared loop closes an interval, because the time from a window's
end to its record delays the result. Every loop waits while the agent is over its limit. Owns only arithmetic;
times and costs come from outside.

Invariants: a job is classified as slow only by processor time, never because the host is busy, and in a
shared loop only if it repeatedly costs much more than the mean of the others. A loop apart that has waited
for `PATIENCE_S` because of intervals has a turn. Of two loops apart with a backlog, neither gets more than a
quantum and two blocks more than the other, because a block is read while the one before it is evaluated.

Paper: 4.3, jobs do not disturb each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from elfmesh.ingest.budget.allowance import ProcessAllowance
from elfmesh.ingest.budget.costs import SEAL_S

QUANTUM_S = 0.02
"""Processor seconds of a turn. A block that costs twice as much halves the next one, and one that costs half
as much doubles it. Expressions may hold the interpreter for most of a block."""

BEGIN_BYTES = BYTES_MIN = 4 << 10
"""A block is evaluated as a whole, so an expensive expression over megabytes could take seconds."""

PASSED_OVER_S = 0.05
"""A loop that has used its quantum asks again after this time."""

ABSENT_S = 1.0
"""The others do not wait for a loop that has not asked for this time, because it hangs or has ended. A
waiting loop asks more often."""

SLOW_S, TIMES = QUANTUM_S / 2, 4
"""Processor seconds of a shared block from which the delay of results is noticeable, and factor above the
mean of the others, from which a job has overdrawn its share of the block."""

OVERDRAFTS, BLOCKS = 3, 200
"""A job that has overdrawn its share as often in so many blocks, in 4 to 20 s, is slow."""

LEAST_S, SLOW_S_PER_BYTE = 0.2, 5e-7
"""Processor seconds per byte of a slow job that is read apart: 2 MB a second. Usual expressions are a hundred
times faster, a Python function in its process about ten times. The first call of an expression may load
libraries, so the decision needs some processor time."""

CLOSING_S = 0.05
"""Time from a window's end to its published record, on an otherwise idle agent: slightly more than 25 ms."""

BLOCK_S, BLOCK_TIMES = 0.01, 2
"""Minimum time of a block, and ratio of its wall-clock time to its processor time, with two competing
threads."""

PATIENCE_S = 0.2


class LoopAccount:
    """Account of one loop.

    Args:
        loops: all loops of the agent.
        agent: the agent's processor time, for which every loop waits; None: no limit.
        bytes_most: maximum size of a block.

    Attributes:
        is_apart: whether it reads one job apart from the others.
        bytes_max: approximate size of its next block.
        due_us: wall-clock time at which it may close the next interval; None: unknown.
        sealed_s: time of its last seal, by the event loop's clock.
    """

    def __init__(
        self, loops: Sequence[LoopAccount], agent: ProcessAllowance | None, bytes_most: int, is_apart: bool
    ) -> None:
        self._loops, self._agent, self.is_apart = loops, agent, is_apart
        self._bytes_most, self.bytes_max = bytes_most, BEGIN_BYTES if is_apart else bytes_most
        self.due_us: int | None = None
        self.sealed_s = float("-inf")
        self._waits_since_s: float | None = None  # for the agent
        self._waited_s = 0.0
        self._yields_since_s: float | None = None
        self._asked_s = float("-inf")
        self._has_more = False
        self._deficit_s = 0.0  # not above 0 without a backlog, and never above a quantum
        self._block_s, self._cpu_s, self._bytes, self._blocks = 2 * QUANTUM_S, 0.0, 0, 0
        self._overdrafts: dict[str, list[int]] = {}  # job -> numbers of the blocks

    def delay_s(self, now_s: float, wall_us: Callable[[], int]) -> float:
        """Return how long to wait before the next block; 0: no wait. Called repeatedly while it waits.

        Cost: one system call, and for a loop apart a few operations for each loop of the agent.
        """
        agent_s = 0.0 if self._agent is None else self._agent.delay_s
        self._note_waited(now_s, agent_s > 0)
        if not self.is_apart:
            return agent_s
        self._asked_s = now_s
        return max(agent_s, self._yields_s(now_s, wall_us), self._passed_over_s(now_s))

    def charge(
        self, bytes_read: int, cpu_s: float, costs: Mapping[str, float], has_more: bool, intervals: int = 0
    ) -> str | None:
        """Record a block: its cost in processor seconds, also of each job, and the sealed intervals.

        Returns the job that has overdrawn its share of shared blocks too often, if any. Cost: one pass over
        the jobs.
        """
        self._blocks += 1
        if not self.is_apart:
            return self._overdrawn(costs)
        self._block_s, self._has_more = cpu_s, has_more
        credit_s = self._deficit_s if has_more else min(self._deficit_s, 0.0)
        self._deficit_s = credit_s - cpu_s - intervals * SEAL_S
        if bytes_read:
            self._cpu_s += cpu_s
            self._bytes += bytes_read
            if cpu_s > 2 * QUANTUM_S:
                self.bytes_max = max(BYTES_MIN, self.bytes_max // 2)
            elif cpu_s < QUANTUM_S / 2:
                self.bytes_max = min(self._bytes_most, self.bytes_max * 2)
        return None

    @property
    def is_slow(self) -> bool:
        """Return whether other jobs of the stream would have to wait for the job that is read apart."""
        return self._cpu_s >= LEAST_S and self._cpu_s > SLOW_S_PER_BYTE * self._bytes

    def take_waited_s(self, now_s: float) -> float:
        self._note_waited(now_s, self._waits_since_s is not None)
        waited_s, self._waited_s = self._waited_s, 0.0
        return waited_s

    def _note_waited(self, now_s: float, waits: bool) -> None:
        if self._waits_since_s is not None:
            self._waited_s += now_s - self._waits_since_s
        self._waits_since_s = now_s if waits else None

    def _overdrawn(self, costs: Mapping[str, float]) -> str | None:
        if len(costs) < 2:
            return None
        name = max(costs, key=lambda each: costs[each])
        mean = (sum(costs.values()) - costs[name]) / (len(costs) - 1)
        if costs[name] < max(SLOW_S, TIMES * mean):
            return None
        recent = [at for at in self._overdrafts.pop(name, ()) if self._blocks - at < BLOCKS]
        if len(recent) + 1 == OVERDRAFTS:
            return name
        self._overdrafts[name] = [*recent, self._blocks]
        return None

    def _passed_over_s(self, now_s: float) -> float:
        """Return how long to wait for the turns of others. If all have had theirs, a round begins."""
        ring = [each for each in self._loops if each is self or each._is_in_ring(now_s)]
        most_s = max(each._deficit_s for each in ring)
        if most_s < 0.0:
            credit_s = QUANTUM_S * math.ceil(-most_s / QUANTUM_S)
            for each in ring:
                each._deficit_s += credit_s
        return 0.0 if self._deficit_s >= 0.0 else PASSED_OVER_S

    def _is_in_ring(self, now_s: float) -> bool:
        return self.is_apart and self._has_more and now_s - self._asked_s < ABSENT_S

    def _yields_s(self, now_s: float, wall_us: Callable[[], int]) -> float:
        """Return how long to wait for intervals of the shared loops."""
        block_s = BLOCK_TIMES * max(self._block_s, BLOCK_S)
        shared = (each for each in self._loops if not each.is_apart)
        wait_s = max((each._closes_s(now_s, wall_us, block_s) for each in shared), default=0.0)
        if wait_s <= 0.0:
            self._yields_since_s = None
        elif self._yields_since_s is None:
            self._yields_since_s = now_s
        elif now_s - self._yields_since_s >= PATIENCE_S:
            self._yields_since_s, wait_s = None, 0.0
        return wait_s

    def _closes_s(self, now_s: float, wall_us: Callable[[], int], block_s: float) -> float:
        """Return how long this loop closes an interval, from now or within a block; 0: it does not."""
        wait_s = max(0.0, self.sealed_s + CLOSING_S - now_s)
        if self.due_us is not None:
            ahead_s = (self.due_us - wall_us()) / 1e6
            if -CLOSING_S < ahead_s <= block_s:
                wait_s = max(wait_s, ahead_s + CLOSING_S)
        return wait_s

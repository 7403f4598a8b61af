"""Choice of the jobs to slow down when an agent has less processor time than its jobs need.

Once a second the watchdog observes how long reading waited for the agent's allowance and what each job cost.
If reading waits repeatedly, the most expensive job gets an allowance of its own. If that is not enough, the
job that is then most expensive gets one, or half of its previous one. When there is room again, the job that
was slowed last is released first. Owns the decision, and does not slow any job itself.

Invariants: a job is slowed only if reading waited during the last WINDOW seconds. In streams that lose
nothing (`on_overload = "wait"`), only a job that uses more than its share is slowed, because equal delays
would help no job. A job that must be slowed again soon after its release stays slowed twice as long.

Paper: none. Shedding is by cost instead of random, because overload is usually caused by one bad job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

WINDOW = 5
"""Observations per decision, one per second; most bursts are shorter."""

WAITED = 0.25
"""Share of time that reading waited above which the agent is overloaded."""

ROOM = 0.05
"""Share of time that reading waited below which there is room."""

CALM, CALM_MAX = 10, 320
"""Observations with room before a job is released; doubled if it is soon slowed again."""

CORES_MIN = 0.001
"""Minimum allowance; with less, a poll of the job would take minutes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a job since its start.

    Attributes:
        cpu_s: processor seconds.
        sheds: the job's stream drops what there is no room for.
    """

    cpu_s: float
    sheds: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleOrder:
    """New allowance of a job in cores; None: no limit. `was_cores` is its use so far."""

    job: str
    cores: float | None
    used_cores: float = 0.0


class Watchdog:
    """Decision which jobs to slow down.

    Args:
        cores: the agent's allowance.
        share: share of it that the most expensive job keeps.
    """

    def __init__(self, cores: float, share: float) -> None:
        self._cores, self._share = cores, share
        self._waited: deque[float] = deque(maxlen=WINDOW)
        self._costs: deque[dict[str, float]] = deque(maxlen=WINDOW + 1)
        self._calm = 0
        self._penalty: dict[str, int] = {}
        self.slowed: dict[str, float] = {}

    def observe(self, waited: float, costs: Mapping[str, Cost]) -> ThrottleOrder | None:
        """Process the observations of one second.

        Args:
            waited: share of the second that reading waited for the allowance.
            costs: costs of all jobs here.

        Cost: one pass over the jobs.
        """
        self._waited.append(waited)
        self._costs.append({job: cost.cpu_s for job, cost in costs.items()})
        for gone in [job for job in self.slowed if job not in costs]:
            del self.slowed[gone]
        if len(self._waited) < WINDOW:
            return None
        mean = sum(self._waited) / WINDOW
        self._calm = self._calm + 1 if mean < ROOM else 0
        if mean > WAITED:
            return self._slow_down(costs)
        if self.slowed:
            last = next(reversed(self.slowed))
            if self._calm >= self._penalty.get(last, CALM):
                self._calm = 0
                del self.slowed[last]
                return ThrottleOrder(last, None)
        return None

    def _slow_down(self, costs: Mapping[str, Cost]) -> ThrottleOrder | None:
        first, last = self._costs[0], self._costs[-1]
        seconds = len(self._costs) - 1
        used = {job: (cpu_s - first.get(job, cpu_s)) / seconds for job, cpu_s in last.items()}
        total = sum(used.values())
        found = [
            job
            for job in sorted(used, key=lambda each: (-used[each], each))
            if costs[job].sheds or (used[job] > self._share * total and len(used) > 1)
        ]
        if not found or not total:
            return None
        worst = found[0]
        before = self.slowed.pop(worst, None)
        cores = self._cores * self._share if before is None else max(before / 2, CORES_MIN)
        if before is None:
            known = self._penalty.get(worst)
            self._penalty[worst] = CALM if known is None else min(known * 2, CALM_MAX)
        self.slowed[worst] = cores
        self._waited.clear()  # new observations decide whether that was enough
        self._costs.clear()
        return ThrottleOrder(worst, cores, used[worst])

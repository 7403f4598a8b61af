"""Who gives way when an agent has less processor than its jobs want: the one that costs most, first.

Once a second it is told how long reading had to wait for the agent's allowance and what each job has cost.
While it waits again and again, the worst job is given an allowance of its own; if that was not enough, the
one that is worst then is given one, or half of what it had. When there is room again the last one to be
slowed down is the first to be let go. Owns the decision. Slows no job down itself.

Invariants: a job is slowed down only while, over WINDOW seconds, reading waited; among jobs of streams that
lose nothing (`on_overload = "wait"`) only one that takes more than its share, since to wait by turns would
help no job; a job that had to be slowed down soon after it was let go waits twice as long the next time.

Paper: none; shedding by cost instead of at random follows from one bad job being the usual reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

WINDOW = 5
"""Observations, a second each: a burst is over by then."""

WAITED = 0.25
"""Share of the time that reading waited: more is overload."""

ROOM = 0.05
"""Less is room for more."""

CALM, CALM_MAX = 10, 320
"""Observations with room before a job is let go; doubled for one that was soon back."""

CORES_MIN = 0.001
"""An allowance is not halved below: a job would not end a poll in minutes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job has cost since it began.

    Attributes:
        cpu_s: processor seconds.
        sheds: its stream drops what there is no room for.
    """

    cpu_s: float
    sheds: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job's allowance from now on, in cores; None: as much as it wants. `was_cores`: what it had used."""

    job: str
    cores: float | None
    used_cores: float = 0.0


class Watchdog:
    """See the module.

    Args:
        cores: the agent's allowance.
        share: of it, what the worst job keeps.
    """

    def __init__(self, cores: float, share: float) -> None:
        self._cores, self._share = cores, share
        self._waited: deque[float] = deque(maxlen=WINDOW)
        self._costs: deque[dict[str, float]] = deque(maxlen=WINDOW + 1)
        self._calm = 0
        self._penalty: dict[str, int] = {}
        self.slowed: dict[str, float] = {}

    def observe(self, waited: float, costs: Mapping[str, Cost]) -> Verdict | None:
        """A second has passed.

        Args:
            waited: share of it that reading waited for the allowance.
            costs: of all jobs here.

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
                return Verdict(last, None)
        return None

    def _slow_down(self, costs: Mapping[str, Cost]) -> Verdict | None:
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
        self._waited.clear()  # what follows shows whether that was enough
        self._costs.clear()
        return Verdict(worst, cores, used[worst])

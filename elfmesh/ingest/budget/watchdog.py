"""Which job gives way when an agent has less processor time than its jobs want: the costliest, first.

Once a second it receives how long reading waited for the allowance and what each job has cost. While reading
waits again and again over WINDOW seconds, the worst job gets an allowance of its own, or half of what it had.
The last job to be slowed down is the first to be released. Among jobs that lose nothing (`on_overload =
"wait"`) only one that takes more than its share is slowed down. A job that is slowed down again soon after
its release waits twice as long. Shedding by cost instead of at random follows from one bad job being the
usual reason.
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
    """The processor seconds of a job so far, and whether its stream drops what there is no room for."""

    cpu_s: float
    sheds: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job's allowance from now on, in cores; None: as much as it wants. `was_cores`: what it had used."""

    job: str
    cores: float | None
    used_cores: float = 0.0


class Watchdog:
    """See the module; `share` of the agent's `cores` is what the worst job keeps."""

    def __init__(self, cores: float, share: float) -> None:
        self._cores, self._share = cores, share
        self._waited: deque[float] = deque(maxlen=WINDOW)
        self._costs: deque[dict[str, float]] = deque(maxlen=WINDOW + 1)
        self._calm = 0
        self._penalty: dict[str, int] = {}
        self.slowed: dict[str, float] = {}

    def observe(self, waited: float, costs: Mapping[str, Cost]) -> Verdict | None:
        """A second has passed, of which reading waited this share."""
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

"""Detection of a job that delays the other jobs of its stream, so that it can be read apart.

The jobs of a stream are evaluated one after the other, so that a line is parsed once for all; a job that
takes long delays the intervals of all others. Owns the record of slow polls. Moves no job.

Invariant: only a job that repeatedly costs much more than the mean of the others is reported.

Paper: none. One bad job must not affect the others.
"""

from __future__ import annotations

from collections.abc import Mapping

SLOW_S = 0.01
"""CPU seconds of one poll from which the delay of results is noticeable."""

TIMES = 4
"""Factor above the mean of the others."""

STRIKES = 3
POLLS = 200
"""Number of polls in which strikes are counted: 4 to 20 s."""


class SlowJobs:
    """Slow polls of each job."""

    def __init__(self) -> None:
        self._polls = 0
        self._strikes: dict[str, list[int]] = {}

    def polled(self, costs: Mapping[str, float]) -> str | None:
        """Record the cost of each job in a poll, in CPU seconds. Returns the job that is too slow, if any.

        Cost: one pass over the jobs.
        """
        self._polls += 1
        if len(costs) < 2:
            return None
        name = max(costs, key=lambda each: costs[each])
        mean = (sum(costs.values()) - costs[name]) / (len(costs) - 1)
        if costs[name] < SLOW_S or costs[name] < TIMES * mean:
            return None
        strikes = [at for at in self._strikes.get(name, []) if self._polls - at < POLLS]
        strikes.append(self._polls)
        if len(strikes) >= STRIKES:
            self._strikes.pop(name, None)
            return name
        self._strikes[name] = strikes
        return None

    def gone(self, name: str) -> None:
        self._strikes.pop(name, None)

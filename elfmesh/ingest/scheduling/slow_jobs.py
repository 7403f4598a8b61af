"""Which job of a stream holds up the others: it is to be read by itself.

The jobs of a stream are evaluated one after the other, so that a line is parsed once for all; one that takes
long delays the intervals of every other. Owns the memory of who did. Moves no job.

Invariant: only a job that costs much more than the others' mean, again and again, is named.

Paper: none; the issue that one bad job hurts the rest is what users of agents complain of most.
"""

from __future__ import annotations

from collections.abc import Mapping

SLOW_S = 0.01
"""CPU seconds of one poll: a result that is late by more is seen to be late."""

TIMES = 4
"""So many times the mean of the others."""

STRIKES = 3
POLLS = 200
"""Strikes are counted over so many polls: 4 to 20 s."""


class SlowJobs:
    """The slow polls of each job."""

    def __init__(self) -> None:
        self._polls = 0
        self._strikes: dict[str, list[int]] = {}

    def polled(self, costs: Mapping[str, float]) -> str | None:
        """Note what each job cost in a poll, in CPU seconds; the job that is too slow, if one is.

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

"""Which of a job's workers at this agent has said something, and how much of it still stands.

Owns the count of the workers that were asked for, and from where on each change of versions has had intervals
made again. Between such a change and the first word of the worker that obeys it, what the one before has
sealed still comes. If the change is taken back meanwhile, it is of the right version and will yet be made
again: it must not go up, since another contribution would have its name (D-7).

Invariants: what is void is said again, or made again, by a worker that was asked for later.
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.jobs.records import FIRST
from elfmesh.interval_map import END

CHANGES_MAX = 64
"""Changes that are remembered; nothing stands of what a worker says that has missed more."""


class WorkerGenerations:
    """The workers of one job at one agent, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._count = 0
        self._changes: deque[tuple[int, int]] = deque(maxlen=CHANGES_MAX)

    def next(self) -> int:
        self._count += 1
        return self._count

    def changed(self, at: int) -> None:
        self._changes.append((self._count, at))

    def stands_until(self, begun: int) -> int:
        """What a worker says stands below this interval; `begun`: its number, 0 for the newest."""
        if not begun or begun == self._count:
            return END
        missed = [at for count, at in self._changes if begun <= count]
        return FIRST if len(missed) == CHANGES_MAX else min(missed, default=END)

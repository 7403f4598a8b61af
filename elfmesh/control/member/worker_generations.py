"""The workers of a job at one agent in the order of their starts, and which of their reports count.

Owns the number of each worker, and the first interval that each change of versions annuls. Until the worker
that obeys a change has started, reports of the one before still arrive. If the change is taken back
meanwhile, these reports are of the right version, but the later worker makes their intervals again. They must
not go up, because two contributions would have one name (D-7).

Invariant: a worker that was started later reports again, or makes again, every interval of a report that does
not count.
"""

from __future__ import annotations

from collections import deque

from elfmesh.control.jobs.records import FIRST
from elfmesh.interval_map import END

CHANGES_MAX = 64
"""Changes that are remembered. No report of a worker that has missed more of them counts."""


class WorkerGenerations:
    """See the module."""

    def __init__(self) -> None:
        self._count = 0
        self._changes: deque[tuple[int, int]] = deque(maxlen=CHANGES_MAX)

    def next(self) -> int:
        """The number of a worker that is started now."""
        self._count += 1
        return self._count

    def changed(self, at: int) -> None:
        """A change of versions annuls the intervals from `at` on."""
        self._changes.append((self._count, at))

    def stands_until(self, begun: int) -> int:
        """The interval below which the reports of a worker count.

        Args:
            begun: the worker's number, 0 for the newest.
        """
        if not begun or begun == self._count:
            return END
        missed = [at for count, at in self._changes if begun <= count]
        return FIRST if len(missed) == CHANGES_MAX else min(missed, default=END)

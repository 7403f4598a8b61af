"""Notices that what a member has sealed is not closed: the master may not know that it is due.

Owns how long a sealed interval may stay open before the master is asked, and how often it is asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from elfmesh.control.context import Alarm, Context

PATIENCE_S = 1.0
"""How much longer than the job's deadline a sealed interval stays open before a member asks why."""

WAITING_AGAIN_S = 2.0


class StallWatch:
    """Watches the sealed intervals of one member.

    Args:
        context: the clock.
        deadline_s: of the job, as it is now.
        ask: asks the master.
    """

    def __init__(self, context: Context, deadline_s: Callable[[], float], ask: Callable[[], None]) -> None:
        self._context, self._deadline_s, self._ask = context, deadline_s, ask
        self._sealed_at: deque[tuple[int, float]] = deque()
        self._alarm = Alarm(context, self._look)
        self._stopped = False

    def sealed(self, stop: int) -> None:
        """Everything below `stop` has just gone up for the first time."""
        self._sealed_at.append((stop, self._context.now))

    def closed(self, stop: int) -> None:
        while self._sealed_at and self._sealed_at[0][0] <= stop:
            self._sealed_at.popleft()

    def begin(self) -> None:
        """Something has gone up: watch, unless this is done already."""
        if not self._alarm.is_set and not self._stopped:
            self._alarm.set(self._context.jittered(self._patience_s))

    def stop(self) -> None:
        self._stopped = True

    @property
    def _patience_s(self) -> float:
        return self._deadline_s() + PATIENCE_S

    def _look(self) -> None:
        if not self._sealed_at or self._stopped:
            return
        if self._context.now - self._sealed_at[0][1] < self._patience_s:
            self.begin()
            return
        self._ask()
        pause_s = max(WAITING_AGAIN_S, self._patience_s)
        self._alarm.set(self._context.jittered(pause_s))

"""Latency statistics of a master, for monitoring only.

Owns three durations of each of the newest intervals, and the smoothed lateness of each member's
contributions. No decision depends on them.

Invariant: memory is bounded by `KEPT` closed intervals, `OPEN_MAX` open ones and one number per member.

Paper: ELF 4 (where the latency of a tree comes from).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.interval_map import numbers

KEPT = 32
OPEN_MAX = 1024
"""Intervals that are decided and not closed; the interval closer allows fewer."""

WEIGHT = 0.25
"""Weight of the newest arrival in a member's smoothed lateness."""


@dataclass(slots=True)
class _Open:
    due: float
    decided: float
    made: float


class LatencyStats:
    """Durations of one job's intervals."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._late: dict[int, float] = {}
        self._open: dict[int, _Open] = {}
        self._closed: deque[tuple[int, float, float, float]] = deque(maxlen=KEPT)

    def arrived(self, mask: int, due: float | None) -> None:
        """Record an arrival of contributions of the members in `mask`. Cost: one step per member.

        `due` is the time of the interval's first arrival; None: this is the first one.
        """
        late = 0.0 if due is None else max(0.0, self._context.now - due)
        for number in numbers(mask):
            before = self._late.get(number, late)
            self._late[number] = before + WEIGHT * (late - before)

    def decided(self, index: int, due: float | None) -> None:
        """Record the decision about an interval that the first member passed at `due`."""
        now = self._context.now
        if len(self._open) < OPEN_MAX:
            self._open[index] = _Open(now if due is None else due, now, now)

    def made(self, index: int) -> None:
        if (known := self._open.get(index)) is not None:
            known.made = self._context.now

    def closed(self, index: int) -> None:
        if (known := self._open.pop(index, None)) is not None:
            parts = (known.decided - known.due, known.made - known.decided, self._context.now - known.made)
            self._closed.append((index, *parts))

    def forget(self, number: int) -> None:
        self._late.pop(number, None)

    def late_s(self, number: int) -> float | None:
        """Return a member's smoothed lateness after the first member; None: before its first contribution."""
        late = self._late.get(number)
        return None if late is None else round(late, 4)

    def describe(self) -> list[dict[str, float]]:
        """Return the newest intervals, oldest first, with the seconds of each of their three phases."""
        return [
            {
                "index": index,
                "gathering": round(first, 4),
                "making": round(rows, 4),
                "agreeing": round(last, 4),
            }
            for index, first, rows, last in self._closed
        ]

"""Where the time of an interval goes, as the master sees it: for people, no decision is made of it.

Owns three durations for each of the newest intervals, and how late each member's contributions arrive. Knows
no record and no clock but the context's.

Invariants: bounded: `KEPT` intervals and one number for each member of the roster.

Paper: ELF 4 (where the latency of a tree comes from).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.interval_map import numbers

KEPT = 32
OPEN_MAX = 1024
"""Intervals that are decided and not closed: closing keeps fewer in flight."""

WEIGHT = 0.25
"""Of the newest arrival in a member's smoothed lateness."""


@dataclass(slots=True)
class _Open:
    due: float
    decided: float
    made: float


class LatencyStats:
    """Durations of one job's intervals.

    Args:
        context: clock.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._late: dict[int, float] = {}
        self._open: dict[int, _Open] = {}
        self._closed: deque[tuple[int, float, float, float]] = deque(maxlen=KEPT)

    def arrived(self, mask: int, due: float | None) -> None:
        """What the members in `mask` contributed is here; `due`: since another one was, None: the first.

        Cost: one step for each member.
        """
        late = 0.0 if due is None else max(0.0, self._context.now - due)
        for number in numbers(mask):
            before = self._late.get(number, late)
            self._late[number] = before + WEIGHT * (late - before)

    def decided(self, index: int, due: float | None) -> None:
        """No member is waited for any longer in an interval that a member passed at `due`."""
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
        """How long after the first one a member's contributions arrive, smoothed; None: nothing has."""
        late = self._late.get(number)
        return None if late is None else round(late, 4)

    def describe(self) -> list[dict[str, float]]:
        """The newest intervals, oldest first; seconds of gathering, of making rows, of agreeing to close."""
        return [
            {
                "index": index,
                "gathering": round(first, 4),
                "making": round(rows, 4),
                "agreeing": round(last, 4),
            }
            for index, first, rows, last in self._closed
        ]

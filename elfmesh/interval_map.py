"""Whose contribution is there, for every interval: a piecewise constant map from intervals to bit sets.

Owns arithmetic only. Bit sets are Python integers, bit n is roster number n. A piece is a run of intervals
with the same set, so that "agents 0..7 have nothing from ever until interval 57" is one piece.

Invariant: pieces are sorted, adjacent ones differ, the last one reaches to the end of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

END = 2**62
"""One past every interval there can be."""


def numbers(mask: int) -> list[int]:
    """The roster numbers in a bit set, ascending."""
    found, number = [], 0
    while mask:
        step = (mask & -mask).bit_length() - 1
        number += step
        found.append(number)
        mask >>= step + 1
        number += 1
    return found


def bits(numbers: Iterable[int]) -> int:
    """The bit set of roster numbers."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


class IntervalMap:
    """The bit set of every interval from `start` on.

    Args:
        start: first interval of interest; everything below is forgotten.
    """

    def __init__(self, start: int) -> None:
        self._starts = [start]
        self._masks = [0]

    @property
    def start(self) -> int:
        """First interval that is still known."""
        return self._starts[0]

    def at(self, interval: int) -> int:
        """The bit set of one interval, 0 below `start`."""
        place = bisect_right(self._starts, interval) - 1
        return self._masks[place] if place >= 0 else 0

    def until(self, interval: int) -> int:
        """One past the last interval of the piece that `interval` lies in."""
        place = bisect_right(self._starts, interval)
        return self._starts[place] if place < len(self._starts) else END

    def add(self, start: int, stop: int, mask: int) -> None:
        """Add `mask` to every interval in [start, stop). Cost: pieces touched."""
        start = max(start, self._starts[0])
        if start >= stop or not mask:
            return
        first, last = self._cut(start), (self._cut(stop) if stop < END else len(self._starts))
        for place in range(first, last):
            self._masks[place] |= mask
        self._join(max(first - 1, 0), min(last + 1, len(self._starts)))

    def drop_below(self, interval: int) -> None:
        """Forget everything below `interval`."""
        if interval > self._starts[0]:
            place = self._cut(interval)
            del self._starts[:place], self._masks[:place]

    def frontier(self, number: int, interval: int) -> int:
        """First interval from `interval` on that lacks this agent; END if none does."""
        bit = 1 << number
        place = max(bisect_right(self._starts, interval) - 1, 0)
        while place < len(self._starts):
            if not self._masks[place] & bit:
                return max(self._starts[place], interval)
            place += 1
        return END

    def _cut(self, at: int) -> int:
        place = bisect_right(self._starts, at) - 1
        if self._starts[place] == at:
            return place
        self._starts.insert(place + 1, at)
        self._masks.insert(place + 1, self._masks[place])
        return place + 1

    def _join(self, first: int, last: int) -> None:
        for place in range(last - 1, first, -1):
            if self._masks[place] == self._masks[place - 1]:
                del self._starts[place], self._masks[place]

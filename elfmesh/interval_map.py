"""Piecewise constant maps from intervals to values, and bit sets of roster numbers.

Owns arithmetic only. A piece is a run of intervals with equal values, so that "agents 0..7 have nothing from
ever until interval 57" is one piece of a map to bit sets. Bit sets are Python integers, bit n is roster
number n. A range may be astronomically long, so nothing here iterates over intervals.

Invariant: pieces are sorted, adjacent ones differ, the last one reaches to the end of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

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


class IntervalMap(Generic[T]):
    """The value of every interval from `start` on.

    Args:
        start: first interval of interest; everything below is forgotten.
        empty: the value of all intervals to which none was given, and of those below `start`.
    """

    def __init__(self, start: int, empty: T) -> None:
        self._starts, self._values, self._empty = [start], [empty], empty

    @property
    def start(self) -> int:
        """First interval that is still known."""
        return self._starts[0]

    def at(self, interval: int) -> T:
        """The value of one interval. Cost: O(log pieces)."""
        place = bisect_right(self._starts, interval) - 1
        return self._values[place] if place >= 0 else self._empty

    def until(self, interval: int) -> int:
        """One past the last interval of the piece that `interval` lies in."""
        place = bisect_right(self._starts, interval)
        return self._starts[place] if place < len(self._starts) else END

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, T]]:
        """[start, stop) cut where the value changes: (from, to, value). Cost: O(log pieces + those)."""
        start = max(start, self._starts[0])
        place = bisect_right(self._starts, start) - 1
        while start < stop:
            place += 1
            end = min(stop, self._starts[place]) if place < len(self._starts) else stop
            yield start, end, self._values[place - 1]
            start = end

    def change(self, start: int, stop: int, change: Callable[[T], T]) -> None:
        """Replace the value of every interval in [start, stop) by `change` of it. Cost: those pieces."""
        start = max(start, self._starts[0])
        if start >= stop:
            return
        first, last = self._cut(start), (self._cut(stop) if stop < END else len(self._starts))
        for place in range(first, last):
            self._values[place] = change(self._values[place])
        self._join(max(first - 1, 0), min(last + 1, len(self._starts)))

    def put(self, start: int, stop: int, value: T) -> None:
        """Give every interval in [start, stop) this value. Cost: those pieces."""
        self.change(start, stop, lambda before: value)

    def drop_below(self, interval: int) -> None:
        """Forget everything below `interval`."""
        if interval > self._starts[0]:
            place = self._cut(interval)
            del self._starts[:place], self._values[:place]

    def _cut(self, at: int) -> int:
        place = bisect_right(self._starts, at) - 1
        if self._starts[place] == at:
            return place
        self._starts.insert(place + 1, at)
        self._values.insert(place + 1, self._values[place])
        return place + 1

    def _join(self, first: int, last: int) -> None:
        for place in range(last - 1, first, -1):
            if self._values[place] == self._values[place - 1]:
                del self._starts[place], self._values[place]


class CoverMap(IntervalMap[int]):
    """The bit set of every interval from `start` on."""

    def __init__(self, start: int) -> None:
        super().__init__(start, 0)

    def add(self, start: int, stop: int, mask: int) -> None:
        """Add `mask` to every interval in [start, stop). Cost: pieces touched."""
        if mask:
            self.change(start, stop, lambda before: before | mask)

    def frontier(self, number: int, interval: int) -> int:
        """First interval from `interval` on that lacks this agent; END if none does."""
        for start, _, mask in self.pieces(max(interval, self.start), END):
            if not mask >> number & 1:
                return start
        return END

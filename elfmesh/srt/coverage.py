"""Coverage: bitmaps of counted agents, ranges of intervals, and a piecewise constant map of both.

Owns the arithmetic of coverage. Does not depend on trees, peers or payloads. A range may be extremely long
(it may start at `FIRST`), so no function iterates over intervals.

Invariant of `Cells`: cells are sorted and disjoint, and neighbours differ. Intervals without a cell have
attempt 0 and no counted member.

Deviation: the paper identifies snapshots by interval only and relies on the shape of the tree. Here every
partial is identified by the set of its agents, because retransmissions and changes of parents must not change
a result (D-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sortedcontainers import SortedDict

from elfmesh.interval_map import IntervalMap
from elfmesh.safeguards import safeguard
from elfmesh.srt.messages import FIRST


def bits_of(bitmap: bytes) -> int:
    """Convert a bitmap to an integer: bit n is roster number n."""
    return int.from_bytes(bitmap, "little")


def bitmap_of(bits: int) -> bytes:
    """Convert bits to the shortest bitmap: equal sets have equal bytes."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def is_in(bitmap: bytes, number: int) -> bool:
    return number < 8 * len(bitmap) and bool(bitmap[number >> 3] >> (number & 7) & 1)


class PartialOverlap(Enum):
    """Relation of a partial to the partials that are already counted."""

    NEW = "disjoint: counts"
    DUPLICATE = "contained: dropped"
    OVERLAP = "partly contained: can neither be dropped nor counted"


@safeguard("duplicates", "disjoint-merge:trees")
def judge(coverage: int, known: int) -> PartialOverlap:
    """Compare a partial of `coverage` with the agents in `known`, which are counted already (D-7)."""
    common = coverage & known
    if not common:
        return PartialOverlap.NEW
    return PartialOverlap.DUPLICATE if common == coverage else PartialOverlap.OVERLAP


@dataclass(frozen=True, slots=True)
class CoverageCell:
    """State of the intervals [start, stop): the current attempt, and the agents that are counted in it."""

    start: int
    stop: int
    attempt: int = 0
    known: int = 0


class Cells:
    """Map from intervals to (attempt, known coverage), piecewise constant."""

    def __init__(self) -> None:
        self._map = IntervalMap(FIRST, (0, 0))

    def pieces(self, start: int, stop: int) -> list[CoverageCell]:
        """Split [start, stop) where the state changes. Cost: O(log cells + pieces)."""
        return [CoverageCell(low, high, *state) for low, high, state in self._map.pieces(start, stop)]

    def put(self, cell: CoverageCell) -> None:
        self._map.put(cell.start, cell.stop, (cell.attempt, cell.known))

    def drop_below(self, stop: int) -> None:
        self._map.put(FIRST, stop, (0, 0))


class Revisions:
    """Newest revision of each contribution that was counted in the current attempt, if above 1."""

    def __init__(self) -> None:
        self._newest: SortedDict[tuple[int, int], int] = SortedDict()

    def judge(self, interval: int, coverage: int, rev: int) -> PartialOverlap:
        """Record a revision; it is a duplicate if this or a higher one was recorded before."""
        if self._newest.get((interval, coverage), 1) >= rev:
            return PartialOverlap.DUPLICATE
        self._newest[interval, coverage] = rev
        return PartialOverlap.NEW

    def forget(self, start: int, stop: int) -> None:
        """Forget a range that is closed or collected again. Cost: O(log revisions + revisions in it)."""
        for at in list(self._newest.irange((start, 0), (stop, 0))):
            del self._newest[at]


def extend(ranges: list[tuple[int, int]], start: int, stop: int) -> None:
    """Add a range that is above all others; it is joined to the last one if they touch."""
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], stop)
    else:
        ranges.append((start, stop))

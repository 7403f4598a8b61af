"""Who is already counted where: coverage bitmaps, ranges of intervals, cells.

Owns the arithmetic of coverage; refuses to know trees, peers and payloads. A range may be
astronomically long (it may start at `FIRST`), so nothing here ever iterates over intervals.

Invariant of `Cells`: cells are sorted and disjoint, neighbours differ, and what no cell mentions is
attempt 0 with no member counted.

Deviation: the paper names snapshots by interval only and trusts the tree's shape; we count every
partial by the set of agents in it, because retransmission and re-parenting must not change a result
(D-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sortedcontainers import SortedDict

from elfmesh.interval_map import IntervalMap
from elfmesh.safeguards import safeguard
from elfmesh.srt.messages import FIRST


def bits_of(bitmap: bytes) -> int:
    """The bitmap as an integer: bit n is roster number n."""
    return int.from_bytes(bitmap, "little")


def bitmap_of(bits: int) -> bytes:
    """The shortest bitmap of these bits: equal sets have equal bytes."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def is_in(bitmap: bytes, number: int) -> bool:
    return number < 8 * len(bitmap) and bool(bitmap[number >> 3] >> (number & 7) & 1)


class Verdict(Enum):
    """What a partial is to those already counted."""

    NEW = "disjoint: counts"
    DUPLICATE = "contained: dropped"
    OVERLAP = "partly contained: can neither be dropped nor counted"


@safeguard("duplicates", "disjoint-merge:trees")
def judge(coverage: int, known: int) -> Verdict:
    """Rule on a partial of `coverage` where `known` are counted already (D-7)."""
    common = coverage & known
    if not common:
        return Verdict.NEW
    return Verdict.DUPLICATE if common == coverage else Verdict.OVERLAP


@dataclass(frozen=True, slots=True)
class Cell:
    """In [start, stop) collection number `attempt` is on and the agents in `known` are counted."""

    start: int
    stop: int
    attempt: int = 0
    known: int = 0


class Cells:
    """A map from intervals to (attempt, known coverage), piecewise constant."""

    def __init__(self) -> None:
        self._map = IntervalMap(FIRST, (0, 0))

    def pieces(self, start: int, stop: int) -> list[Cell]:
        """[start, stop) cut where the state changes. Cost: O(log cells + pieces)."""
        return [Cell(low, high, *state) for low, high, state in self._map.pieces(start, stop)]

    def put(self, cell: Cell) -> None:
        """Set the state of the cell's whole range."""
        self._map.put(cell.start, cell.stop, (cell.attempt, cell.known))

    def drop_below(self, stop: int) -> None:
        self._map.put(FIRST, stop, (0, 0))


class Revisions:
    """The newest revision of each contribution that was counted in the current attempt, where above 1."""

    def __init__(self) -> None:
        self._newest: SortedDict[tuple[int, int], int] = SortedDict()

    def judge(self, interval: int, coverage: int, rev: int) -> Verdict:
        """Rule on a revision, and note it: it counts unless this or a higher one did."""
        if self._newest.get((interval, coverage), 1) >= rev:
            return Verdict.DUPLICATE
        self._newest[interval, coverage] = rev
        return Verdict.NEW

    def forget(self, start: int, stop: int) -> None:
        """The range is closed, or is collected again. Cost: O(log revisions + revisions in it)."""
        for at in list(self._newest.irange((start, 0), (stop, 0))):
            del self._newest[at]


def extend(ranges: list[tuple[int, int]], start: int, stop: int) -> None:
    """Add a range that lies above all others, joining it to the last if they touch."""
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], stop)
    else:
        ranges.append((start, stop))

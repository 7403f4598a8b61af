"""What some agents have for one interval, and the arithmetic of runs of such contributions.

Owns one shape for the worker, the member, the trees and the copies: an interval, its counts and its payload.
A run is a tuple of contributions in the order of their intervals, at most one each. Refuses to know whose
they are, and how they look on the wire and on disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter


@dataclass(frozen=True, slots=True)
class Contribution:
    """See the module.

    Attributes:
        interval: its index.
        counts: of records by bucket.
        payload: the partial aggregate, b"" if there are no rows.
        rev: which revision it is; above 1 of one agent alone.
    """

    interval: int
    counts: tuple[int, ...]
    payload: bytes = b""
    rev: int = 1


_interval_of = attrgetter("interval")


def within(run: tuple[Contribution, ...], start: int, stop: int) -> tuple[Contribution, ...]:
    """Those of the intervals [start, stop). Cost: O(log run + those)."""
    first = bisect_left(run, start, key=_interval_of)
    return run[first : bisect_left(run, stop, first, key=_interval_of)]


def replaced(run: Iterable[Contribution], new: Contribution) -> tuple[Contribution, ...]:
    """A run with another contribution to one interval, which may have had none."""
    kept = (each for each in run if each.interval != new.interval)
    return tuple(sorted((*kept, new), key=_interval_of))


def payload_bytes(parts: Iterable[Iterable[Contribution]]) -> int:
    """Of several runs."""
    return sum(len(each.payload) for run in parts for each in run)


def around_revisions(run: Iterable[Contribution], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """[start, stop) cut so that each interval with a revision stands alone."""
    for each in run:
        if each.rev > 1 and start <= each.interval < stop:
            if start < each.interval:
                yield start, each.interval
            yield each.interval, each.interval + 1
            start = each.interval + 1
    if start < stop:
        yield start, stop


def split(payload: bytes, sizes: Sequence[int]) -> tuple[bytes, ...] | None:
    """A payload cut into pieces of these sizes, or None if they are not its size together."""
    if any(size < 0 for size in sizes) or sum(sizes) != len(payload):
        return None
    found, at = [], 0
    for size in sizes:
        found.append(payload[at : at + size])
        at += size
    return tuple(found)

"""What some agents have for one interval, and the arithmetic of runs of such contributions.

Owns one shape for the worker, the member, the trees and the copies: an interval, its counts and its payload.
A run is a tuple of contributions in the order of their intervals, at most one each. Does not depend on the
agents that made them, or on the encodings of the wire and the disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter


@dataclass(frozen=True, slots=True)
class Contribution:
    """Counts and payload of some agents for one interval.

    Attributes:
        interval: its index.
        counts: of records by bucket.
        payload: the partial aggregate, b"" if there are no rows.
        rev: number of the revision, from 1; a contribution with a higher one is of a single agent.
    """

    interval: int
    counts: tuple[int, ...]
    payload: bytes = b""
    rev: int = 1


_interval_of = attrgetter("interval")


def within(run: tuple[Contribution, ...], start: int, stop: int) -> tuple[Contribution, ...]:
    """Return the contributions to the intervals [start, stop). Cost: O(log run + result)."""
    first = bisect_left(run, start, key=_interval_of)
    return run[first : bisect_left(run, stop, first, key=_interval_of)]


def replaced(run: Iterable[Contribution], new: Contribution) -> tuple[Contribution, ...]:
    """Return a run in which `new` replaces the contribution to its interval, if there is one."""
    kept = (each for each in run if each.interval != new.interval)
    return tuple(sorted((*kept, new), key=_interval_of))


def payload_bytes(parts: Iterable[Iterable[Contribution]]) -> int:
    """Return the total size of the payloads of several runs."""
    return sum(len(each.payload) for run in parts for each in run)


def around_revisions(run: Iterable[Contribution], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of [start, stop), cut so that each interval with a revision is a piece of its own."""
    for each in run:
        if each.rev > 1 and start <= each.interval < stop:
            if start < each.interval:
                yield start, each.interval
            yield each.interval, each.interval + 1
            start = each.interval + 1
    if start < stop:
        yield start, stop


def split(payload: bytes, sizes: Sequence[int]) -> tuple[bytes, ...] | None:
    """Return a payload cut into pieces of these sizes, or None if the sizes do not add up to its size."""
    if any(size < 0 for size in sizes) or sum(sizes) != len(payload):
        return None
    found, at = [], 0
    for size in sizes:
        found.append(payload[at : at + size])
        at += size
    return tuple(found)

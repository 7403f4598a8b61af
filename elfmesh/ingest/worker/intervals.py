"""Sealed interval of a job at one agent, and its counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.cbt import Content, Encode, PartialTooLarge
from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, OVERFLOW


class OpenInterval(Struct, frozen=True):
    """Interval that is about to be sealed: its counts and its tables, None if it has no rows."""

    index: int
    counts: tuple[int, ...]
    tables: Mapping[str, Content] | None


class WorkerInterval(Struct, frozen=True):
    """Sealed interval: records per bucket of `BUCKETS`, and one partial (or b"") per partition."""

    index: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]

    @property
    def given_up(self) -> WorkerInterval:
        """Return the interval without its rows; its records are counted as given up."""
        counts = list(self.counts)
        counts[OVERFLOW] += counts[CONTRIBUTED]
        counts[CONTRIBUTED] = 0
        return replace(self, counts=tuple(counts), payloads=(b"",) * len(self.payloads))


def encoded(
    interval: OpenInterval, encode: Encode, partitions: int, note: Callable[[str], None]
) -> WorkerInterval:
    """Encode an interval. One that no message can carry is given up, noted and counted."""
    nothing = WorkerInterval(interval.index, interval.counts, (b"",) * partitions)
    if interval.tables is None:
        return nothing
    try:
        return replace(nothing, payloads=tuple(encode(interval.tables, partitions)))
    except PartialTooLarge as error:
        note(f"interval {interval.index} is given up: {error}")
        return nothing.given_up


def add_to(counts: dict[int, list[int]], index: int, bucket: int, number: int) -> None:
    counts.setdefault(index, [0] * len(BUCKETS))[bucket] += number

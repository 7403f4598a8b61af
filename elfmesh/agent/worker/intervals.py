"""One interval of a job at one agent, as it leaves the worker, and its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elfmesh.cbt import Content
from elfmesh.control.results.records import BUCKETS


@dataclass(frozen=True, slots=True)
class OpenInterval:
    """One interval that is about to be sealed: its counts and its tables, None when it has no rows.

    The tables are read before the next interval is asked for.
    """

    index: int
    counts: tuple[int, ...]
    tables: Mapping[str, Content] | None


@dataclass(frozen=True, slots=True)
class SealedInterval:
    """One sealed interval.

    Attributes:
        index: its number.
        counts: records per bucket, in the order of `BUCKETS`.
        payloads: one encoded partial per partition, b"" where there are no rows.
    """

    index: int
    counts: tuple[int, ...]
    payloads: tuple[bytes, ...]


def add_to(counts: dict[int, list[int]], index: int, bucket: int, number: int) -> None:
    """Count in a bucket of one interval."""
    counts.setdefault(index, [0] * len(BUCKETS))[bucket] += number

"""Counts of a contribution that is left out, less those of its prefix in the record (D-21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from elfmesh.control.jobs.records import EXPIRED, FILTERED
from elfmesh.safeguards import safeguard

Prefixes = Mapping[tuple[int, int], tuple[int, int]]
"""By interval and roster number: contributed and filtered records of the prefix."""

NO_PREFIXES: Prefixes = MappingProxyType({})


@safeguard("prefix-once")
def without_prefix(counts: Sequence[int], prefix: tuple[int, int]) -> list[int]:
    """Return counts, whose contributed records are `expired` already, without those of the prefix."""
    found = list(counts)
    found[EXPIRED] -= prefix[0]
    found[FILTERED] -= prefix[1]
    return found

"""Time zones by name, from the machine's tz database: conversion of local times to UTC and back, as in Java.

A local time in a gap uses the offset before the change; an ambiguous one is the earlier instant.
"""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.errors import DataError
from elfmesh.ql.values.columns import from_numpy, int_values, null_mask
from elfmesh.ql.values.types import TIMESTAMP

_SECOND_US = 1_000_000
_FIXED = re.compile(r"(?:(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?|Z|UTC|GMT|UT)")
_HOURS_MAX = 18


class UnknownZone(DataError):
    """The tz database does not have this name."""


@lru_cache(maxsize=256)
def zone(name: str) -> str | int:
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        seconds = int(fixed[2] or 0) * 3600 + int(fixed[3] or 0) * 60
        if seconds > _HOURS_MAX * 3600 or int(fixed[3] or 0) > 59:
            raise UnknownZone(name)
        return -seconds if fixed[1] == "-" else seconds
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise UnknownZone(name) from None
    return name


def to_local(stamps: pa.Array, where: str | int) -> pa.Array:
    """Return the local times of a zone, as naive timestamps."""
    if isinstance(where, int):
        return _moved(stamps, where)
    there = stamps.view(pa.int64()).view(pa.timestamp("us", where))
    return pc.local_timestamp(there).view(pa.int64()).view(TIMESTAMP)


def to_instant(walls: pa.Array, where: str | int) -> pa.Array:
    """Return the instants of naive local times in a zone."""
    if isinstance(where, int):
        return _moved(walls, -where)
    naive = walls.view(pa.int64()).view(pa.timestamp("us"))
    given, null = int_values(walls), null_mask(walls)

    def read(nonexistent: str) -> np.ndarray:
        read = pc.assume_timezone(naive, where, ambiguous="earliest", nonexistent=nonexistent)
        return int_values(read.view(pa.int64()).view(TIMESTAMP))

    after, before = read("latest"), read("earliest")
    gap = after != before
    if gap.any():
        # The offset just before the clocks go forward, which Java uses for times in the gap.
        moments = from_numpy(before, null, TIMESTAMP)
        offset = int_values(to_local(moments, where)) - before
        after = np.where(gap, given - offset, after)
    return from_numpy(after, null, TIMESTAMP)


def _moved(stamps: pa.Array, seconds: int) -> pa.Array:
    values = int_values(stamps)
    with np.errstate(over="ignore"):
        moved = values + seconds * _SECOND_US
    wrapped = (moved < values) != (seconds < 0) if seconds else np.zeros(len(values), np.bool_)
    return from_numpy(moved, null_mask(stamps) | wrapped, TIMESTAMP)

"""The wall clock of simulations: what it says when the loop's time is 0, and how web servers write it."""

from __future__ import annotations

from datetime import UTC, datetime

EPOCH_US = 1_431_856_800_000_000
"""2015-05-17T10:00:00Z."""


def stamp(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

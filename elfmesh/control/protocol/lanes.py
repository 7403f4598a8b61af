"""Lanes of the transport: large payloads have their own, because they must not block small messages."""

from __future__ import annotations

BULK_BYTES = 64 << 10
BULK_LANE = 2


def lane(payload: bytes) -> int:
    """Return the lane of a payload by its size."""
    return BULK_LANE if len(payload) > BULK_BYTES else 0

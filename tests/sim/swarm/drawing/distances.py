"""Latencies that differ by link, and masters that place by them often and for a small gain.

A seed is shorter than the period of masters, and a fleet of few agents seldom has their gain.

Owns the latency of each pair of agents, and the period within a run. A kept scenario without distances runs
as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from elfmesh.control.paths import layouts

PRUNE_S = 12.0
"""How often masters place in a run with a bound of cost, so that it prunes paths several times."""

GAIN = 0.95
"""Share of the present cost at which a placement is taken in such a run."""


@dataclass(frozen=True)
class Distances:
    """Latencies beside those of the weather.

    Attributes:
        most_s: the largest latency of a pair; others are a share of it, which follows from their ids.
        place_s: how often a master computes its placement.
    """

    most_s: float
    place_s: float

    def of(self, one: bytes, other: bytes) -> float:
        """Return the latency of a pair in seconds, equal in both directions."""
        share = hashlib.sha256(min(one, other) + max(one, other)).digest()[0] / 255
        return self.most_s * share


@contextmanager
def placing(distances: Distances | None, *, is_pruned: bool = False) -> Iterator[None]:
    """Let masters place as often as the distances state, for `GAIN`; None: as they do.

    `is_pruned`: a job has a bound of cost.
    """
    if distances is not None:
        with mock.patch.multiple(layouts, PLAN_S=distances.place_s, GAIN=GAIN):
            yield
    elif is_pruned:
        with mock.patch.object(layouts, "PLAN_S", PRUNE_S):
            yield
    else:
        yield

"""Predicts the cost of each strategy of coordination: formulas, default times, and what it waits for.

Units: seconds. The numbers come from the caller; offline, the stated defaults replace them.

Paper: Blazes III, Figure 5 (mechanisms M1, M2, M3), V-B (choice of the mechanism).
"""

from __future__ import annotations

from dataclasses import dataclass

SEAL_INTERVAL, SEAL_KEY, SEQUENCED, ORDERED = "seal on interval", "seal on key", "sequenced", "ordered"
EARLY = "early"
"""Rows of open intervals, which a job with EARLY emits beside its final rows. It is no repair."""

WEIGHTS = {SEAL_INTERVAL: 1, SEAL_KEY: 2, SEQUENCED: 8, ORDERED: 16}
"""Order of preference. A seal waits for the producers of its partition only; an order fixed beforehand
transfers all records through one job; an order decided while running changes the register for every
batch."""

WAITS_FOR = {
    SEAL_INTERVAL: "every member, as ON STRAGGLER specifies",
    SEAL_KEY: "the producers of that key",
    SEQUENCED: "every member",
    ORDERED: "a majority of 3 voters",
    EARLY: "nothing",
}
FORMULAS = {
    SEAL_INTERVAL: "LATENESS + barrier",
    SEAL_KEY: "last seal + EVERY + barrier",
    SEQUENCED: "EVERY + barrier",
    ORDERED: "hop + round trip + sync",
    EARLY: "period + hop",
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Measured or assumed times of a fleet, in seconds; `assumed` says that they are defaults."""

    lateness_s: float = 0.0
    barrier_s: float = 0.040
    every_s: float = 1.0
    sequence_every_s: float = 0.1
    early_s: float = 0.25
    hop_s: float = 0.001
    sync_s: float = 0.005
    assumed: bool = True


def expected_s(strategy: str, at: Circumstances) -> float:
    """Return the latency that a strategy adds, counted from the last record or seal of the partition."""
    if strategy == SEAL_INTERVAL:
        return at.lateness_s + at.barrier_s
    if strategy == SEAL_KEY:
        return at.every_s + at.barrier_s
    if strategy == EARLY:
        return at.early_s + at.hop_s
    if strategy == SEQUENCED:
        return at.sequence_every_s + at.barrier_s
    return 3 * at.hop_s + at.sync_s

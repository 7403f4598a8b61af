"""Output fidelity: the share of the expected input that a result stands for (D-10).

Owns the formula. Paper: PPA 4.2, output fidelity as the rate-weighted share of the input that was processed,
a product over joined inputs. Deviation: members say one rate for all their streams, so that every joined
input is taken to lack the same share.
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.control.jobs.records import CONTRIBUTED, FILTERED, OVERFLOW, SHED
from elfmesh.interval_map import numbers

WEIGHT = 0.2
"""Of the newest interval in a member's usual rate: a burst of one interval does not change who matters."""

CHANGE = 0.25
SAY_AGAIN_S = 10.0
"""A rate is said again when it has changed by this share, and not more often."""

RATE_MAX = 1e15
"""More than an interval has records: sums of rates stay finite."""

READ = (CONTRIBUTED, FILTERED)
"""Buckets of the records that a result has seen."""

DROPPED = (SHED, OVERFLOW)
"""Buckets of the records that were dropped under pressure, by the stream's declared choice."""


class Rates:
    """What the members of a job usually have, as they say it."""

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}

    def reported(self, number: int, records: float) -> None:
        """A member says how many records an interval of its usually has; nonsense is not believed."""
        if 0 <= records <= RATE_MAX:  # what is not a number compares with nothing
            self._rates[number] = records

    def fidelity(self, required: int, missing: int, counts: Sequence[int], joined: int = 1) -> float:
        """The share of the expected records that is inside, between 0 and 1.

        Args:
            required: bit set of the members that are expected.
            missing: those of them that are not inside.
            counts: records per bucket of `BUCKETS`, of those inside.
            joined: how many inputs a row is put together of.
        """
        read = sum(counts[at] for at in READ)
        shed = sum(counts[at] for at in DROPPED)
        kept = read / (read + shed) if shed else 1.0
        share = self._share(numbers(required), numbers(missing)) if missing else 1.0
        return float((kept * share) ** joined)

    def _share(self, expected: list[int], missing: list[int]) -> float:
        """By rate; a member that has said none counts as the mean of those that have."""
        known = [self._rates[number] for number in expected if number in self._rates]
        usual = sum(known) / len(known) if known else 1.0
        weights = {number: self._rates.get(number, usual) for number in expected}
        total = sum(weights.values())
        if not total:  # no member usually has anything, so no absence can weigh more than another
            weights, total = dict.fromkeys(expected, 1.0), float(len(expected))
        return (total - sum(weights[number] for number in missing)) / total


class UsualRate:
    """How many records an interval of one member usually has, and when its master should hear of it."""

    def __init__(self) -> None:
        self.records: float | None = None
        self._reported: tuple[int, float, float] | None = None

    def add(self, records: int) -> None:
        self.records = records if self.records is None else self.records + WEIGHT * (records - self.records)

    def news(self, epoch: int, now: float) -> float | None:
        if self.records is None:
            return None
        if self._reported is not None and self._reported[0] == epoch:
            _, reported, at = self._reported
            if now - at < SAY_AGAIN_S or abs(self.records - reported) <= CHANGE * max(reported, 1.0):
                return None
        self._reported = (epoch, self.records, now)
        return self.records

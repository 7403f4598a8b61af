"""Output fidelity: the share of the expected input that a result represents (D-10).

Owns the formula. Paper: PPA 4.2, output fidelity as the rate-weighted share of the processed input, a product
over joined inputs. Deviation: a member reports one rate for all its streams, so that all joined inputs are
assumed to lack the same share.
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.control.jobs.records import CONTRIBUTED, FILTERED, OVERFLOW, SHED
from elfmesh.interval_map import numbers

WEIGHT = 0.2
"""Weight of the newest interval in a member's usual rate; a burst of one interval changes the rate little."""

CHANGE = 0.25
SAY_AGAIN_S = 10.0
"""A member reports its rate again after a change by this share, at most once in this time."""

RATE_MAX = 1e15
"""Maximum rate, above the records of any interval, so that sums of rates stay finite."""

READ = (CONTRIBUTED, FILTERED)
"""Buckets of the records that a result represents."""

DROPPED = (SHED, OVERFLOW)
"""Buckets of the records that an agent drops under load, if the stream allows it."""


class Rates:
    """Usual numbers of records of the members of a job, as they report them."""

    def __init__(self) -> None:
        self._rates: dict[int, float] = {}

    def reported(self, number: int, records: float) -> None:
        """Store a member's usual number of records per interval; ignore a value out of range."""
        if 0 <= records <= RATE_MAX:  # False for NaN
            self._rates[number] = records

    def fidelity(self, required: int, missing: int, counts: Sequence[int], joined: int = 1) -> float:
        """Return the share of the expected records that is inside, between 0 and 1.

        Args:
            required: bit set of the expected members.
            missing: bit set of the expected members that are not inside.
            counts: records per bucket of `BUCKETS`, of the members inside.
            joined: number of joined inputs.
        """
        read = sum(counts[at] for at in READ)
        shed = sum(counts[at] for at in DROPPED)
        kept = read / (read + shed) if shed else 1.0
        share = self._share(numbers(required), numbers(missing)) if missing else 1.0
        return float((kept * share) ** joined)

    def _share(self, expected: list[int], missing: list[int]) -> float:
        """Return the rate-weighted share; a member without a rate has the mean of the others."""
        known = [self._rates[number] for number in expected if number in self._rates]
        usual = sum(known) / len(known) if known else 1.0
        weights = {number: self._rates.get(number, usual) for number in expected}
        total = sum(weights.values())
        if not total:  # no member usually has records, so that all have the same weight
            weights, total = dict.fromkeys(expected, 1.0), float(len(expected))
        return (total - sum(weights[number] for number in missing)) / total


class UsualRate:
    """Usual number of records per interval of one member, and when to report it to the master."""

    def __init__(self) -> None:
        self.records: float | None = None
        self._reported: tuple[int, float, float] | None = None

    def add(self, records: int) -> None:
        self.records = records if self.records is None else self.records + WEIGHT * (records - self.records)

    def news(self, epoch: int, now: float) -> float | None:
        """Return the rate to report to the master of `epoch`; None: nothing to report."""
        if self.records is None:
            return None
        if self._reported is not None and self._reported[0] == epoch:
            _, reported, at = self._reported
            if now - at < SAY_AGAIN_S or abs(self.records - reported) <= CHANGE * max(reported, 1.0):
                return None
        self._reported = (epoch, self.records, now)
        return self.records

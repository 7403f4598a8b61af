"""Output fidelity: the share of the expected input that a result represents (D-10).

Owns the usual rates of members, by input, and the formula. Paper: PPA III-A, output fidelity as the
rate-weighted share of each input (Eq. 1), a product over joined inputs (Eq. 2), and a mean over united ones
(Eq. 3). Filtered records have no weight, because they cannot change the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import CONTRIBUTED, FILTERED, OVERFLOW, SHED
from elfmesh.interval_map import numbers
from elfmesh.ql.plan.fidelity_shape import ONE_INPUT, FidelityShape
from elfmesh.safeguards import safeguard

WEIGHT = 0.2
"""Weight of the newest interval in a member's usual rate; a burst of one interval changes the rate little."""

CHANGE = 0.25
SAY_AGAIN_S = 10.0
"""A member reports its rates again after a change of one by this share, at most once in this time."""

RATE_MAX = 1e15
"""Maximum rate, above the records of any interval, so that sums of rates stay finite."""

INPUTS_MAX = 256
"""Maximum number of inputs of which a member reports rates."""

NOTHING: Mapping[int, float] = MappingProxyType({})
READ = (CONTRIBUTED, FILTERED)
"""Buckets of the records that an agent read and did not drop."""

DROPPED = (SHED, OVERFLOW)
"""Buckets of the records that an agent drops under load, if the stream allows it."""


class Rates:
    """Usual numbers of records of the members of a job, by input, as they report them."""

    def __init__(self) -> None:
        self._rates: dict[int, tuple[float, ...]] = {}

    def reported(self, number: int, records: Sequence[float]) -> None:
        """Store a member's usual numbers of records per interval; ignore values out of range.

        A member of an earlier release reports one number, which counts for every input.
        """
        if 0 < len(records) <= INPUTS_MAX and all(0 <= each <= RATE_MAX for each in records):  # False for NaN
            self._rates[number] = tuple(records)

    def known(self, number: int) -> tuple[float, ...]:
        """Return what a member has reported; empty if it has not."""
        return self._rates.get(number, ())

    def of(self, number: int, at: int) -> float | None:
        """Return a member's usual number of records of input `at`; None: it has reported none."""
        known = self.known(number)
        return known[0] if len(known) == 1 else known[at] if at < len(known) else None

    @safeguard("share-of-a-prefix")
    def of_prefix(self, number: int, required: int, contributed: int, passed: float) -> float:
        """Return the share of a member's usual records that a prefix contains.

        Args:
            number: of the member.
            required: bit set of the expected members; a member without a rate has the mean of the others.
            contributed: records of the prefix that pass the filters.
            passed: share of the window before the newest record of the prefix.
        """
        passed = min(1.0, max(0.0, passed))
        totals = [sum(self.known(each)) for each in numbers(required) if self.known(each)]
        usual = sum(self.known(number)) if self.known(number) else sum(totals) / max(1, len(totals))
        expected = contributed + usual * (1 - passed)
        return contributed / expected if expected else passed

    def fidelity(
        self,
        required: int,
        missing: int,
        counts: Sequence[int],
        shape: FidelityShape = ONE_INPUT,
        partly: Mapping[int, float] = NOTHING,
    ) -> float:
        """Return the share of the expected records that is inside, between 0 and 1.

        Args:
            required: bit set of the expected members.
            missing: bit set of the expected members that are not inside.
            counts: records per bucket of `BUCKETS`, of the members inside.
            shape: of the statement.
            partly: by number, the share of a missing member that is inside (`of_prefix`).
        """
        read = sum(counts[at] for at in READ)
        shed = sum(counts[at] for at in DROPPED)
        kept = read / (read + shed) if shed else 1.0
        if not missing:
            return float(kept)
        return float(kept * shape.share(*self.shares(required, missing, shape, partly)))

    def shares(
        self, required: int, missing: int, shape: FidelityShape, partly: Mapping[int, float] = NOTHING
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return, by input, the share that is inside and the usual number of records of all members."""
        members, absent = numbers(required), {each: 1 - partly.get(each, 0.0) for each in numbers(missing)}
        found = [self._share(members, absent, at) for at in range(max(shape.inputs, default=0) + 1)]
        return tuple(share for share, _ in found), tuple(total for _, total in found)

    @safeguard("weighed-by-rates")
    def weights(self, members: Sequence[int], at: int) -> dict[int, float]:
        """Return the usual records of one input; a member without a rate has the mean of the others."""
        reported = {number: self.of(number, at) for number in members}
        known = [rate for rate in reported.values() if rate is not None]
        usual = sum(known) / len(known) if known else 1.0
        return {number: usual if rate is None else rate for number, rate in reported.items()}

    def _share(self, members: list[int], absent: Mapping[int, float], at: int) -> tuple[float, float]:
        """Return the rate-weighted share of one input.

        `absent` is the share of each missing member that is not inside.
        """
        weights = self.weights(members, at)
        total = whole = sum(weights.values())
        if not total:  # no member usually has records, so that all have the same weight
            weights, whole = dict.fromkeys(members, 1.0), float(len(members) or 1)
        out = sum(weights[number] * absent[number] for number in members if number in absent)
        return (whole - out) / whole, total


class UsualRate:
    """Usual numbers of records of one member, by input, and when to report them to the master.

    Attributes:
        records: by input, for an interval.
        nbytes: the usual size of a contribution.
    """

    def __init__(self) -> None:
        self.records: tuple[float, ...] = ()
        self.nbytes = 0.0
        self._reported: tuple[int, tuple[float, ...], float] | None = None

    def add(self, records: Sequence[int], nbytes: int = 0) -> None:
        """Take the records of the newest interval; another number of inputs begins again."""
        if len(records) != len(self.records):
            self.records, self.nbytes = tuple(map(float, records)), float(nbytes)
        self.nbytes += WEIGHT * (nbytes - self.nbytes)
        pairs = zip(self.records, records, strict=True)
        self.records = tuple(usual + WEIGHT * (newest - usual) for usual, newest in pairs)

    def add_all(self, parts: Sequence[Sequence[Contribution]], inputs: Mapping[int, tuple[int, ...]]) -> None:
        """Take the records of sealed intervals.

        Args:
            parts: by partition, the contributions to the same intervals; the first has the counts.
            inputs: by interval, the records that pass the filters of each input; absent: there is one input.
        """
        for each in zip(*parts, strict=True):
            records = inputs.get(each[0].interval, (each[0].counts[CONTRIBUTED],))
            self.add(records, sum(len(part.payload) for part in each))

    def news(self, epoch: int, now: float) -> tuple[float, ...] | None:
        """Return the rates to report to the master of `epoch`; None: nothing to report."""
        if not self.records:
            return None
        if self._reported is not None and self._reported[0] == epoch:
            _, reported, at = self._reported
            if len(reported) == len(self.records) and (
                now - at < SAY_AGAIN_S
                or not any(
                    abs(rate - before) > CHANGE * max(before, 1.0)
                    for rate, before in zip(self.records, reported, strict=True)
                )
            ):
                return None
        self._reported = (epoch, self.records, now)
        return self.records

"""What the standby of each member costs: bytes per second of deltas (STANDBY with a rate).

Owns the costs of the members of one job, as its master knows them. A member that ships reports what it ships.
Before that, its contribution to an interval states how large its open windows become, and `DELTAS_PER_SEALED`
estimates the deltas from it.

Invariants: what a member has shipped takes the place of the estimate, also after it has ceased to ship, so
that a plan that drops an expensive member does not add it again at once. A single report changes a cost by
`WEIGHT`.
"""

from __future__ import annotations

from collections.abc import Collection

from elfmesh.units import MICROS

WEIGHT = 0.2
"""Weight of the newest report of what a member ships."""

DELTAS_PER_SEALED = 4.0
"""Bytes of deltas for a byte of the sealed contribution, because a group is in each delta that changes it."""

LEAST = 1.0
"""Bytes per second of a member that has shipped nothing for a while, because a cost is positive."""


class ShippingCosts:
    """The costs by the numbers of the members."""

    def __init__(self) -> None:
        self._sealed: dict[int, float] = {}
        self._shipped: dict[int, float] = {}

    def sealed(self, number: int, nbytes: float) -> None:
        """A member reports the usual size of its contribution to an interval; 0: it does not state it."""
        if nbytes > 0:
            self._sealed[number] = nbytes

    def shipped(self, number: int, bytes_s: float) -> None:
        """A member reports the bytes per second of its deltas; 0: it has not measured them yet."""
        if bytes_s > 0:
            usual = self._shipped.get(number, bytes_s)
            self._shipped[number] = usual + WEIGHT * (bytes_s - usual)

    def known(self, number: int, slide_us: int) -> float | None:
        """Return the bytes per second of a member; None: nothing is known of it.

        Args:
            number: of the member.
            slide_us: time between two intervals.
        """
        if (shipped := self._shipped.get(number)) is not None:
            return max(LEAST, shipped)
        sealed = self._sealed.get(number)
        return None if sealed is None else max(LEAST, DELTAS_PER_SEALED * sealed * MICROS / slide_us)

    def estimates(self, numbers: Collection[int], slide_us: int, room: float) -> dict[int, float]:
        """Return the bytes per second of some members; a member of which nothing is known has the mean.

        Args:
            numbers: of the members.
            slide_us: time between two intervals.
            room: the cost of each member if no cost is known, so that one member measures it first.
        """
        found = {number: self.known(number, slide_us) for number in numbers}
        known = [each for each in found.values() if each is not None]
        usual = sum(known) / len(known) if known else room
        return {number: usual if each is None else each for number, each in found.items()}

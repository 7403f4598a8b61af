"""What a closed interval would have been worth without some members, from its rows without their records.

Owns the cases of one measurement and their order: the rows of all members come first, and those of each case
are compared with them. Asks no member; `verification` collects what they compute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.tentative_accuracy import compared

if TYPE_CHECKING:
    import pyarrow as pa

Losses = tuple[tuple[str, tuple[str, ...]], ...]
"""Failure domains that are lost, one after the other, with the names of their agents."""

GONE_MAX = 10
"""Rows without a counterpart that a case names."""


class LossMeasurement:
    """See the module.

    Args:
        losses: what is lost; empty: nothing is measured.
        plan: of the version that has closed the interval.
        rates: how many records members usually have.

    Attributes:
        rows: number of rows of all members.
        cases: outcomes so far, in the order of `losses`.
    """

    def __init__(self, losses: Losses, plan: JobPlan, rates: Rates) -> None:
        self._losses, self._plan, self._rates = losses, plan, rates
        self._whole: pa.Table | None = None
        self._about: dict[str, Any] = {}
        self.rows = 0
        self.cases: list[dict[str, Any]] = []

    def next_lost(self, inside: Mapping[int, str], counts: Mapping[int, tuple[int, ...]]) -> Collection[int]:
        """Return the numbers of the members whose records the next rows lack.

        Args:
            inside: names of the members, by number.
            counts: records per bucket that each member has found again.
        """
        if self._whole is None or len(self.cases) == len(self._losses):
            return ()
        value, names = self._losses[len(self.cases)]
        lost = [number for number, name in inside.items() if name in names]
        required, missing = (sum(1 << number for number in each) for each in (inside, lost))
        shares = self._rates.shares(required, missing, self._plan.shape)
        contributed = {number: each[0] if each else 0 for number, each in counts.items()}
        total = sum(contributed.values())
        left = total - sum(contributed.get(number, 0) for number in lost)
        self._about = {
            "lost": value,
            "agents": sorted(inside[number] for number in lost),
            "fidelity": round(self._plan.shape.share(*shares), 4),
            "records": round(left / total, 4) if total else 1.0,
        }
        return lost

    def made(self, rows: pa.Table) -> bool:
        """Take the rows that were made without the members of `next_lost`; whether they were the last."""
        if self._whole is None:
            self._whole, self.rows = rows, len(rows)
        else:
            found = compared(rows, self._whole, self._plan.keys)
            if found is None:
                self._about |= {"stay": None, "gone": [], "error": None}
            else:
                error = None if found.error is None else round(found.error, 4)
                self._about |= {"stay": found.stay, "gone": [*found.gone[:GONE_MAX]], "error": error}
            self.cases.append(self._about)
        return len(self.cases) == len(self._losses)

"""Which members of a job get a standby, as its text states it."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.units import format_size


class StandbyBudget(Struct, frozen=True):
    """Which members get a standby.

    Attributes:
        unit: "all"; a number of "members"; a "share" of them; "rate", the bytes per second that all members
            together may ship; "keeps", a least fidelity.
        amount: in this unit.
    """

    unit: str
    amount: float = 0.0

    def __str__(self) -> str:
        texts = {
            "all": "ALL",
            "members": f"{self.amount:g}",
            "share": f"'{100 * self.amount:g} %'",
            "rate": f"'{format_size(round(self.amount))}/s'",
        }
        return texts.get(self.unit, f"KEEPS {self.amount:g}")


ALL_MEMBERS = StandbyBudget("all")

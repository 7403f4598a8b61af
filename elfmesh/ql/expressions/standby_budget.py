"""Which members of a job get a standby, as its text states it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StandbyBudget:
    """Which members get a standby: "all", a number of "members", a "share"; "keeps" for a least fidelity."""

    unit: str
    amount: float = 0.0

    def __str__(self) -> str:
        texts = {"all": "ALL", "members": f"{self.amount:g}", "share": f"'{100 * self.amount:g} %'"}
        return texts.get(self.unit, f"KEEPS {self.amount:g}")


ALL_MEMBERS = StandbyBudget("all")

"""How early rows are made without their safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from elfmesh.cbt.rows import combine
from tests.sim.swarm.ablations.names import Patch, instead, original
from tests.sim.swarm.scenario import Scenario
from tests.sim.swarm.shapes import Shape, small


def _added_up() -> list[Patch]:
    """What a member reports is added to what it has reported before."""
    found = original("early-newest")

    def newest(known: Any, new: Any, boot: int, number: int) -> Any:
        if known is not None:
            new = {name: combine([known.tables[name], rows]) for name, rows in new.items()}
        return found(None, new, boot, number)

    return instead("early-newest", newest)


def _grouped(shape: Shape) -> Shape:
    """The same with a job whose groups need two records, so that a record that counts twice makes a row."""

    def made(scenario: Scenario) -> Scenario:
        base = shape(scenario)
        job = replace(base.jobs[0], name="sums", ids=False, early_ms=100, enough=3)
        return replace(base, jobs=(job,))

    return made


EARLY = _grouped(small(poll_s=0.1))
SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "early-newest": (
        "a later state of a member replaces the earlier one, because states are cumulative",
        "D-19",
        _added_up,
        EARLY,
    ),
}

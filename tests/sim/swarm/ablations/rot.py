"""What an agent whose results rot does without its safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfmesh.control.replicas import log_repair
from elfmesh.storage.results import salvage, segment_files
from tests.sim.swarm.shapes import ROT, Shape

Patch = tuple[Any, str, Any]


def without_holes() -> list[Patch]:
    """What lacks between two good records is as if it had never been."""
    original = salvage.salvage

    def found(*args: Any) -> Any:
        kept = original(*args)
        kept.holes.clear()
        return kept

    return [(segment_files, "salvage", found)]


def never_filled(self: Any, holes: Any) -> None:
    """Nobody asks for records that lack."""


SAFEGUARDS: dict[str, tuple[str, str, Callable[[], list[Patch]], Shape]] = {
    "holes": (
        "no reader reads over records that damage took",
        "D-17",
        without_holes,
        ROT,
    ),
    "mending": (
        "records that damage took are fetched from other voters",
        "D-17",
        lambda: [(log_repair.LogRepair, "found", never_filled)],
        ROT,
    ),
}

"""What an agent whose results rot does without its safeguards; see `ablations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sim.swarm.ablations.names import Patch, always, instead, original
from tests.sim.swarm.shapes import ROT, Shape


def without_holes() -> list[Patch]:
    """What lacks between two good records is as if it had never been."""
    salvaged = original("holes")

    def found(*args: Any) -> Any:
        kept = salvaged(*args)
        kept.holes.clear()
        return kept

    return instead("holes", found)


def never_filled(self: Any, holes: Any) -> None:
    """No agent asks for records that lack."""


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
        always(("mending", never_filled)),
        ROT,
    ),
}

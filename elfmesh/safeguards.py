"""Names of the safeguards that tests take out one at a time, declared at the code that is the safeguard.

Owns the names and where each stands. Nothing here switches anything: a declaration leaves its function as it
is and costs nothing when that runs, and no configuration reaches it. The simulator's ablations
(tests/sim/swarm/ablations) ask for a safeguard by its name, so code may move or be renamed without them.

Invariant: a name stands at one place. A safeguard that consists of several has one name for each, NAME:PART.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Declared = TypeVar("Declared", bound=Callable[..., object])

PLACES: dict[str, tuple[str, str]] = {}
"""By name: the module, and the qualified name of the function, method or class in it."""


def safeguard(*names: str) -> Callable[[Declared], Declared]:
    """Declare that a function, method or class is these safeguards; below `property` and `staticmethod`.

    Example:
        @safeguard("sync-before-send")
        def sync(self) -> None: ...

    Raises:
        ValueError: another place has one of the names.
    """

    def declare(declared: Declared) -> Declared:
        place = (declared.__module__, declared.__qualname__)
        for name in names:
            if PLACES.setdefault(name, place) != place:
                raise ValueError(f"the safeguard {name} stands at {PLACES[name]} and at {place}")
        return declared

    return declare

"""Effect and event about the Python functions of a version."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class TryFunctions(Effect):
    """Check the signatures of a version's Python functions, load them and evaluate them once."""

    token: int
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class FunctionsTried(Event):
    """The outcome of a `TryFunctions`: why this agent cannot evaluate them; "" if it can."""

    token: int
    error: str = ""

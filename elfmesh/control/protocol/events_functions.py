"""Effect and event about the Python functions of a version."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Effect, Event


class TryFunctions(Effect, Struct, frozen=True):
    """Check the signatures of a version's Python functions, load them and evaluate them once."""

    token: int
    manifest: Manifest


class FunctionsTried(Event, Struct, frozen=True):
    """The outcome of a `TryFunctions`: why this agent cannot evaluate them; "" if it can."""

    token: int
    error: str = ""

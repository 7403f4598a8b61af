"""What evaluating jobs led to, for those who write frames and give events."""

from __future__ import annotations

from dataclasses import dataclass, field

from elfmesh.machine import Event
from elfmesh.storage.frames import Sealed


@dataclass(slots=True)
class Outcome:
    """See the module.

    Attributes:
        frames: must be durable before `events` are given.
        events: for the control plane.
    """

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

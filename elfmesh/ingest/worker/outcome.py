"""Outcome of evaluating jobs: frames to write and events to emit."""

from __future__ import annotations

from dataclasses import dataclass, field

from elfmesh.machine import Event
from elfmesh.storage.frames import Sealed


@dataclass(slots=True)
class WorkerOutcome:
    """Frames and events; `frames` must be durable before `events` go to the control plane."""

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

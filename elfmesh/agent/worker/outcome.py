"""What a poll of a stream led to, for those who write frames and give events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elfmesh.agent.disk.frames import Sealed
from elfmesh.machine import Event

if TYPE_CHECKING:
    from elfmesh.agent.worker.jobs import LocalJob


@dataclass(slots=True)
class Outcome:
    """See the module.

    Attributes:
        frames: must be durable before `events` are given.
        events: for the control plane.
        failed: jobs that stop, each by its own fault.
        slow: a job that holds up the others of the stream.
        more: there is more to evaluate.
    """

    frames: list[Sealed] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failed: list[LocalJob] = field(default_factory=list)
    slow: LocalJob | None = None
    more: bool = False

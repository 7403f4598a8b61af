"""Where the intervals of a job come from: its members, or the jobs that it reads.

Owns the one interface between `Closer`, which closes intervals in order, and a source, which knows when an
interval has everything and what its record is made of.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.decisions import Decision
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Finalise


class OpenIntervals(Protocol):
    """What a source needs of the closer."""

    @property
    def next(self) -> int:
        """The first interval that is not decided."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether another interval may be decided and finalised now."""
        ...


class IntervalSource(Protocol):
    """Decides about the first interval that is open; `Closer` carries that out.

    `Leader.close_ready` has the closer ask again: a source calls it whenever it has learned something.
    """

    def begin(self, closer: OpenIntervals) -> None:
        """Collect, from now on."""
        ...

    def decide(self, at: int, *, paused: bool) -> Decision | None:
        """What becomes of the intervals from `at` on, None if they wait."""
        ...

    def make(self, decision: Decision, rev: int) -> tuple[ResultRecord, Finalise | None]:
        """The record that a decision leaves, and the order to make its rows; None: it has none."""
        ...

    def decided(self, at: int) -> None:
        """Everything below `at` is decided."""
        ...

    def wait(self, at: int, *, shows: bool) -> None:
        """Nothing more can be decided now. `shows`: open intervals may be shown as they are."""
        ...

    def resumed(self) -> None:
        """The job was paused, and goes on."""
        ...

    def waits_for(self) -> list[str]:
        """What the next interval waits for of the jobs that are read, in words."""
        ...

    def stop(self) -> None: ...

"""Interface between `Closer`, which closes intervals in order, and the source of a job's intervals.

A source is the job's members, the jobs that it reads, or the posts of an ordered topic. It decides when an
interval is complete and makes its record.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.decisions import Decision
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Finalise


class OpenIntervals(Protocol):
    """Interface of the closer to its source."""

    @property
    def next(self) -> int:
        """The first interval that is not decided."""
        ...

    @property
    def closed(self) -> int:
        """The first interval that is not published."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether another interval may be decided and finalised now."""
        ...


class IntervalSource(Protocol):
    """Decides about the first open interval; `Closer` carries out the decision.

    A source calls `Leader.close_ready` whenever new input may change its decision; the closer then asks
    again.
    """

    def begin(self, closer: OpenIntervals) -> None: ...

    def decide(self, at: int, *, paused: bool) -> Decision | None:
        """Decide about the intervals from `at` on; None: they wait."""
        ...

    def make(self, decision: Decision, rev: int) -> tuple[ResultRecord, Finalise | bytes]:
        """Return the record of a decision, and the order to make its rows or the rows; b"": it has none."""
        ...

    def decided(self, at: int) -> None:
        """Handle that all intervals below `at` are decided."""
        ...

    def wait(self, at: int, *, shows: bool) -> None:
        """Handle that `at` cannot be decided now. `shows`: whether tentative records may be made."""
        ...

    def resumed(self) -> None:
        """Handle the end of a pause of the job."""
        ...

    def waits_for(self) -> list[str]:
        """Return, as text, the inputs from other jobs for which the next interval waits."""
        ...

    def stop(self) -> None: ...

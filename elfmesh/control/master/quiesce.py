"""When a master closes nothing: a successor, or a new version, begins where nothing is in flight.

Owns why closing stands still and who waits for it; closes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.interval_closer import Closer


class Quiesce:
    """See the module.

    Args:
        closer: of the job.

    Attributes:
        handing_over: another agent is to lead; nothing but `keep` ends that.
    """

    def __init__(self, closer: Closer) -> None:
        self._closer = closer
        self._drained: Callable[[], None] | None = None
        self.handing_over = False

    def hand_over(self, then: Callable[[], None]) -> None:
        """Close nothing more, for a successor; `then` is called once nothing is in flight."""
        self.handing_over = True
        self.freeze(then)

    def keep(self) -> None:
        self.handing_over = False
        self.thaw()

    def freeze(self, then: Callable[[], None]) -> None:
        """Close nothing more; `then` is called once nothing is in flight."""
        self._closer.frozen = True
        self._drained = then
        self._closer.advance()

    def thaw(self) -> None:
        """Close again, unless another agent is to lead."""
        if not self.handing_over:
            self._closer.frozen = False
            self._drained = None
            self._closer.advance()

    def advanced(self) -> None:
        """What is decided has grown, or nothing is in flight any more: who waits for that is called once."""
        if self._drained is not None and self._closer.idle:
            drained = self._drained
            self._drained = None
            drained()

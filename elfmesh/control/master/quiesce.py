"""A pause of the closer, because a successor or a new version begins with no interval in flight.

Owns the reason of the pause, and the part that waits for it. Closes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.closing.interval_closer import Closer


class Quiesce:
    """See the module.

    Args:
        closer: of the job.

    Attributes:
        handing_over: another agent is to lead; only `keep` ends that.
    """

    def __init__(self, closer: Closer) -> None:
        self._closer = closer
        self._drained: Callable[[], None] | None = None
        self.handing_over = False

    def hand_over(self, then: Callable[[], None]) -> None:
        """Close nothing more, because a successor is to lead, and call `then` once nothing is in flight."""
        self.handing_over = True
        self.freeze(then)

    def keep(self) -> None:
        self.handing_over = False
        self.thaw()

    def freeze(self, then: Callable[[], None]) -> None:
        """Close nothing more, and call `then` once nothing is in flight."""
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
        """The closer has decided more, or nothing is in flight: call the part that waits for that, once."""
        if self._drained is not None and self._closer.idle:
            drained = self._drained
            self._drained = None
            drained()

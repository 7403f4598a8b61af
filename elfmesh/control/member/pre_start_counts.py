"""Records of intervals below a member's first one: they never go up, and count where its first ones do.

Owns what of them was counted. A worker that is begun again says again what it has said, and makes again what
another version evaluates now: the same records come once more, and count once (D-1).
"""

from __future__ import annotations

from elfmesh.control.jobs.records import FIRST, add_counts
from elfmesh.control.protocol.events import Sealed


class PreStartCounts:
    """Counts them for one member.

    Attributes:
        counted: records of intervals below this one are counted. They never go up, also not under a later
            master that expects this member from an earlier interval on.
    """

    def __init__(self, counted: int = FIRST) -> None:
        self._reported = FIRST
        self.counted = counted

    def count(self, event: Sealed, first: int) -> tuple[int, ...]:
        """The records by bucket of a range that lie below the first interval, and were not counted yet.

        What was said before either went up, and is settled under the number it went up by, or was counted.

        Args:
            event: as much of a sealed range as is part of the job.
            first: this member's first interval.
        """
        since = max(self._reported, self.counted)
        found = add_counts(each.counts for each in event.parts[0] if since <= each.interval < first)
        self._reported = max(self._reported, event.stop)
        self.counted = max(self.counted, min(event.stop, first))
        return found

    def rewind(self, at: int) -> None:
        """What went up from interval `at` on is no part of the job any more; what was counted stays so."""
        self._reported = min(self._reported, at)

"""Size of the polls of a job that is read apart, and detection of slow jobs.

A block is evaluated as a whole, so an expensive expression over megabytes of lines can take seconds and
gigabytes. A job that is read apart therefore starts with small polls, which grow while their cost is low.
Owns only arithmetic.

Invariant: a job is classified as slow only by CPU time of its own thread, never because the host is busy.

Paper: none.
"""

from __future__ import annotations

from elfmesh.ingest.sources.blocks import POLL_BYTES

BEGIN_BYTES = BYTES_MIN = 4 << 10
LONG_S, SHORT_S = 0.04, 0.01
"""CPU seconds of one poll. Above the first limit the next poll is halved, below the second doubled.
Expressions may hold the interpreter for most of a block."""

LEAST_S = 0.2
"""CPU seconds that are needed for a decision, because the first call of an expression may load libraries."""

SLOW_S_PER_BYTE = 5e-7
"""CPU seconds per byte of a slow job: 2 MB a second. Usual expressions are a hundred times faster, a Python
function in its process about ten times."""


class BatchSizing:
    """Size of the polls of one job.

    Attributes:
        bytes_max: approximate size of the next poll.
    """

    def __init__(self) -> None:
        self.bytes_max = BEGIN_BYTES
        self._cpu_s, self._bytes = 0.0, 0

    def polled(self, bytes_read: int, cpu_s: float) -> None:
        if not bytes_read:
            return
        self._cpu_s += cpu_s
        self._bytes += bytes_read
        if cpu_s > LONG_S:
            self.bytes_max = max(BYTES_MIN, self.bytes_max // 2)
        elif cpu_s < SHORT_S:
            self.bytes_max = min(POLL_BYTES, self.bytes_max * 2)

    @property
    def is_slow(self) -> bool:
        """Return whether other jobs of the stream would have to wait for this job."""
        return self._cpu_s >= LEAST_S and self._cpu_s > SLOW_S_PER_BYTE * self._bytes

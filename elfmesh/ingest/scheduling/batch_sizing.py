"""How much a job that is read by itself is given at a time, and whether it is slow.

A block is evaluated as a whole: what a costly expression makes of megabytes of lines takes seconds and
gigabytes at once. So who is apart begins with little, and gets more as long as that costs little. Owns
arithmetic only.

Invariant: a job is found to be slow only by CPU time of its own thread, never because the host is busy.

Paper: none.
"""

from __future__ import annotations

from elfmesh.ingest.sources.blocks import POLL_BYTES

BEGIN_BYTES = BYTES_MIN = 4 << 10
LONG_S, SHORT_S = 0.04, 0.01
"""CPU seconds of one poll: above the one it is given half, below the other twice as much. Expressions may
keep the interpreter for most of a block, and a core in any case."""

LEAST_S = 0.2
"""CPU seconds that are needed to judge: the first call of an expression may load something."""

SLOW_S_PER_BYTE = 5e-7
"""2 MB a second; usual expressions do a hundred times as much, a Python function in its process some ten."""


class BatchSizing:
    """See the module.

    Attributes:
        bytes_max: about how much to read next.
    """

    def __init__(self) -> None:
        self.bytes_max = BEGIN_BYTES
        self._cpu_s, self._bytes = 0.0, 0

    def polled(self, bytes_read: int, cpu_s: float) -> None:
        """A poll brought so much, and cost so much."""
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
        """Whether the others would wait for this job if it was read with them."""
        return self._cpu_s >= LEAST_S and self._cpu_s > SLOW_S_PER_BYTE * self._bytes

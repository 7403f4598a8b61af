"""Cost of one job at its agent, and its limits while resources are short.

Written by the evaluating thread, one at a time; read by any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from elfmesh.cbt.budget import Account
from elfmesh.ingest.budget.allowance import Allowance

SEAL_S = 0.002
"""Cost of an interval beyond its seal, on other threads and once per job: merging, the register's vote, the
last steps of the query and the record."""


@dataclass(slots=True)
class JobCost:
    """Cost and limits of one job.

    Attributes:
        cpu_s: processor seconds of its operators, inserts and seals, and its share of common parsing.
        lines: lines that were delivered to it, including shed ones.
        lines_shed: lines that were dropped because there was no room or its allowance was used up.
        seal_s: processor seconds of its last poll in which it sealed an interval.
        open_bytes: bytes of its open intervals at the last delivery.
        allowance: its limit of processor time; None: no limit.
        sheds: above the allowance, blocks are dropped and counted; otherwise its reader waits.
        slowed: reason and start of the limit, for display; "" without a limit.
        memory: account of its open intervals against its share; None: no limit.
        crowds: why its memory is spilled before that of others, for display; "" if it is not.
    """

    cpu_s: float = 0.0
    lines: int = 0
    lines_shed: int = 0
    seal_s: float = 0.0
    open_bytes: int = 0
    allowance: Allowance | None = None
    sheds: bool = False
    slowed: str = ""
    memory: Account | None = None
    crowds: str = ""
    _yielded: int = 0

    def charge(self, evaluated_s: float, parsed_s: float, intervals: int = 0) -> None:
        """Add the cost of a poll, and charge the allowance for it and for the sealed intervals."""
        self.cpu_s += evaluated_s + parsed_s
        if self.allowance is not None:
            self.allowance.charge(evaluated_s + parsed_s + intervals * SEAL_S)

    def holds(self, open_bytes: int) -> bool:
        """Update the bytes of its open intervals. Returns whether `crowds` has changed."""
        self.open_bytes = open_bytes
        memory, before = self.memory, self.crowds
        if memory is None:
            return False
        if not memory.beyond_bytes:
            self.crowds = ""
        elif not before and (memory.yielded > self._yielded or memory.is_in_the_way):
            self.crowds = (
                f"open intervals take all memory there is for them, this job's more than its share of"
                f" {memory.share_bytes / 1e6:.3g} MB: they go to disk, or are shed, before those of others"
            )
        self._yielded = memory.yielded
        return self.crowds != before

    @property
    def delay_s(self) -> float:
        """Return how long its next poll must wait; 0 if the job sheds."""
        return 0.0 if self.allowance is None or self.sheds else self.allowance.delay_s

    @property
    def is_in_the_way(self) -> bool:
        """Return whether its open intervals use memory that others need, and cannot be spilled."""
        return self.memory is not None and self.memory.is_in_the_way

    @property
    def is_beyond(self) -> bool:
        """Return whether its allowance is used up, so that the next block must be dropped."""
        return self.sheds and self.allowance is not None and self.allowance.delay_s > 0

    def describe(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self.cpu_s, 6),
            "lines": self.lines,
            "lines_shed": self.lines_shed,
            "open_bytes": self.open_bytes,
            "cores_max": None if self.allowance is None else round(self.allowance.cores, 6),
            "slowed": self.slowed,
            "memory_share_bytes": None if self.memory is None else self.memory.share_bytes,
            "memory_yielded": 0 if self.memory is None else self.memory.yielded,
            "crowds": self.crowds,
        }

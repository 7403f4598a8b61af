"""What one job costs its agent, and what it is held to while there is not enough for all.

Owns the sums. Written by the thread that evaluates, one at a time; read by any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from elfmesh.cbt.budget import Account
from elfmesh.ingest.budget.allowance import Allowance

SEAL_S = 0.002
"""What an interval costs the agent beyond its seal, on other threads and once for each job: merging, the
register's vote, the last steps of the query and the record."""


@dataclass(slots=True)
class JobCost:
    """See the module.

    Attributes:
        cpu_s: processor seconds of its operators, inserts and seals, and its part of what was read and parsed
            for several jobs.
        lines: lines it was given, those that it left out included.
        lines_shed: of those, lines it left out because there was no room or its allowance was used up.
        seal_s: processor seconds of its last poll in which it sealed an interval.
        open_bytes: what its open intervals hold, as of the last lines.
        allowance: what it may use from now on; None: as much as it wants.
        sheds: beyond it, blocks are left out and counted; else its reader waits.
        slowed: why and since when, for people; "" if it is not slowed down.
        memory: what its open intervals hold, against its share; None: there is no limit.
        crowds: why its memory is given up before that of others, for people; "" if it is not.
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
        """A poll has cost so much, and sealed so many intervals, which an allowance has to pay for too."""
        self.cpu_s += evaluated_s + parsed_s
        if self.allowance is not None:
            self.allowance.charge(evaluated_s + parsed_s + intervals * SEAL_S)

    def holds(self, open_bytes: int) -> bool:
        """What its open intervals hold now; whether there is something new to say of its share."""
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
        """How long its next poll has to wait, if it is read by itself and loses nothing."""
        return 0.0 if self.allowance is None or self.sheds else self.allowance.delay_s

    @property
    def is_in_the_way(self) -> bool:
        """Whether its open intervals keep others from what memory there is, and cannot go to disk."""
        return self.memory is not None and self.memory.is_in_the_way

    @property
    def is_beyond(self) -> bool:
        """Whether it has used up the time it may use, and the next block is to be left out."""
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

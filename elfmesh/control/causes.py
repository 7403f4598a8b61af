"""Causes: which step of which agent led to a step, for the steps that concern an interval of a job.

Owns the newest steps of one agent, in memory, and the name of the step whose handling is under way. A step is
named by the beginning of its agent's id, the agent's boot and a number. Messages that can lead to a step at
another agent (`machine.Caused`) carry the name, and timers keep it (`control.context`). Decides nothing:
no protocol reads a step.

Invariants: at most `STEPS_MAX` steps are kept, the newest ones. A step whose cause is not known, because a
thread or another machine answered in between, names the newest step of this agent about the same interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import islice
from typing import NamedTuple

from elfmesh.interval_map import END

STEPS_MAX = 4096
"""About 1.4 MB. An agent that merges for 16 children notes some 40 steps for an interval."""

RECENT = 32
"""How many of the newest steps are searched for one about the same interval."""

AGENT_BYTES = 8
"""Of an agent's id, in the name of a step: enough to tell the agents of a fleet apart."""


UNKNOWN = range(0)
"""The intervals of the step of another agent."""

NO_CAUSE = (b"", UNKNOWN)


class Step(NamedTuple):
    """Something that an agent did for the intervals [start, stop) of a job.

    Attributes:
        name: of the step.
        cause: the name of the step that led to it, b"" if none is known.
        at: when, on the clock of the agent's machines.
        kind: what it did.
        tree: the job, or a tree of one of its partitions.
        start: the first interval.
        stop: one past the last interval.
        peer: beginning of the id of the agent with which it did it, b"" if there is none.
        detail: for people; bytes: the coverage of a contribution.
    """

    name: bytes
    cause: bytes
    at: float
    kind: str
    tree: bytes
    start: int
    stop: int
    peer: bytes
    detail: str | bytes


class Causes:
    """The newest steps of one agent.

    Args:
        agent: its id.
        boot: tells the steps of two boots apart.
        limit: how many steps are kept.
    """

    def __init__(self, agent: bytes, boot: int, limit: int = STEPS_MAX) -> None:
        self._prefix = agent[:AGENT_BYTES] + (boot & 0xFFFFFFFF).to_bytes(4)
        self._count = 0
        self._steps: deque[Step] = deque(maxlen=limit)
        self._current = b""
        self._about = UNKNOWN

    @property
    def current(self) -> bytes:
        """The name of the step whose handling is under way, b"" if there is none."""
        return self._current

    @property
    def here(self) -> tuple[bytes, range]:
        """What a timer keeps, and hands to `follow`.

        Nothing of another agent's step: a timer that is set again and again would name it for ever.
        """
        return (self._current, self._about) if self._about else NO_CAUSE

    def follow(self, cause: bytes, about: range = UNKNOWN) -> None:
        """What is done from now on was caused by `cause`, a step about these intervals; b"" by none."""
        self._current, self._about = cause, about

    def note(
        self,
        now: float,
        kind: str,
        tree: bytes,
        start: int,
        stop: int,
        *,
        peer: bytes = b"",
        detail: str | bytes = "",
        leads: bool = True,
    ) -> None:
        """Keep a step. `leads`: what is done next in this handling was caused by it."""
        if stop <= start:
            return
        about, cause = self._about, self._current
        if not cause or (about and not (about.start < stop and start < about.stop)):
            cause = self._recent(tree, start, stop)
        self._count += 1
        name = self._prefix + (self._count & 0xFFFFFFFF).to_bytes(4)
        peer = peer[:AGENT_BYTES]
        self._steps.append(Step(name, cause, now, kind, tree, start, stop, peer, detail))
        if leads:
            self._current, self._about = name, range(start, stop)

    def of(self, trees: Container[bytes], interval: int) -> list[Step]:
        """The steps about an interval that are kept, in their order."""
        return [each for each in self._steps if each.start <= interval < each.stop and each.tree in trees]

    def kept_from(self, trees: Container[bytes]) -> int | None:
        """The lowest interval that a kept step begins with, None if no step is about these trees."""
        starts = (each.start for each in self._steps if each.tree in trees and each.start > -END)
        return min(starts, default=None)

    def _recent(self, tree: bytes, start: int, stop: int) -> bytes:
        for step in islice(reversed(self._steps), RECENT):
            if step.tree == tree and step.start < stop and start < step.stop:
                return step.name
        return b""

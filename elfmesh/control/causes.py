"""Causes: for each step about an interval of a job, the step of an agent that led to it.

Owns the newest steps of one agent, in memory, and the name of the current step. The name consists of the
first bytes of the agent's id, its boot and a number. Messages that can lead to a step at another agent
(`machine.Caused`: contributions, copies, votes, rosters, handovers, closed watermarks) contain the name, and
timers store it (`control.context`). No decision depends on a step.

Invariants: only the newest `STEPS_MAX` steps are kept. A step whose cause is not known, because a thread or
another machine answered in between, names this agent's newest step about the same interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import islice
from typing import NamedTuple

from elfmesh.interval_map import END

STEPS_MAX = 4096
"""Maximum number of steps, about 1.4 MB. An agent with 16 children notes some 40 steps for an interval."""

RECENT = 32
"""Number of the newest steps that are searched for one about the same interval."""

AGENT_BYTES = 8
"""Number of bytes of an agent's id in the name of a step."""


UNKNOWN = range(0)
"""Intervals of a step of another agent, which are not known."""

NO_CAUSE = (b"", UNKNOWN)


class Step(NamedTuple):
    """A step of an agent for the intervals [start, stop) of a job.

    Attributes:
        name: name of the step.
        cause: name of the step that led to it; b"" if none is known.
        at: time on the clock of the agent's machines.
        kind: kind of the step.
        tree: id of the job, or of a tree of one of its partitions.
        start: the first interval.
        stop: one past the last interval.
        peer: first bytes of the id of the other agent; b"" if there is none.
        detail: text for display; bytes: the coverage of a contribution.
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
        agent: id of the agent.
        boot: boot of the agent.
        limit: maximum number of steps; None: `STEPS_MAX`.
    """

    def __init__(self, agent: bytes, boot: int, limit: int | None = None) -> None:
        self._prefix = agent[:AGENT_BYTES] + (boot & 0xFFFFFFFF).to_bytes(4)
        self._count = 0
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX if limit is None else limit)
        self._current = b""
        self._about = UNKNOWN

    @property
    def current(self) -> bytes:
        """Name of the current step; b"" if there is none."""
        return self._current

    @property
    def here(self) -> tuple[bytes, range]:
        """Arguments for `follow` that a timer stores.

        Steps of other agents are left out, because a timer that is set repeatedly would name one for ever.
        """
        return (self._current, self._about) if self._about else NO_CAUSE

    def follow(self, cause: bytes, about: range = UNKNOWN) -> None:
        """Set the cause of the next steps to `cause`, a step about the intervals `about`; b"": none."""
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
        """Add a step. `leads`: whether it is the cause of the next steps."""
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
        """Return the stored steps about an interval, in their order."""
        return [each for each in self._steps if each.start <= interval < each.stop and each.tree in trees]

    def kept_from(self, trees: Container[bytes]) -> int | None:
        """Return the lowest first interval of the stored steps about these trees; None: there are none."""
        starts = (each.start for each in self._steps if each.tree in trees and each.start > -END)
        return min(starts, default=None)

    def _recent(self, tree: bytes, start: int, stop: int) -> bytes:
        for step in islice(reversed(self._steps), RECENT):
            if step.tree == tree and step.start < stop and start < step.stop:
                return step.name
        return b""

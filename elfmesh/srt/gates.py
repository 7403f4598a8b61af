"""Frontiers of the contributors of a tree at one agent: the agent itself and its children.

Owns the frontiers and the claims beyond them. Does not depend on parts or coverage, and does not decide when
a child is no longer waited for.

Paper: ELF 3, Figure 9 (the barrier waits for the slowest).
"""

from __future__ import annotations

from elfmesh.machine import earliest
from elfmesh.srt.messages import FIRST


class Gate:
    """Frontier of one contributor: everything below `frontier` is claimed; None = it is not waited for.

    Claims may arrive in any order; claims beyond a hole wait in `ahead` until the hole is filled.
    """

    def __init__(self, frontier: int | None = None) -> None:
        self.frontier = frontier
        self._ahead: list[tuple[int, int]] = []

    def set(self, frontier: int | None) -> None:
        """Set the frontier that the contributor announced; earlier claims remain valid."""
        self.frontier = frontier
        self._settle()

    def claim(self, start: int, stop: int) -> None:
        """Record that the contributor has nothing more for [start, stop) except supplements."""
        if start < stop:
            self._ahead.append((start, stop))
            self._settle()

    def _settle(self) -> None:
        self._ahead.sort()
        merged: list[tuple[int, int]] = []
        for start, stop in self._ahead:
            if self.frontier is not None and start <= self.frontier:
                self.frontier = max(self.frontier, stop)
            elif merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        self._ahead = merged


class Gates:
    """Gates of one tree at one agent."""

    def __init__(self) -> None:
        self._own = Gate()
        self._children: dict[bytes, Gate] = {}
        self._hastened = FIRST

    def renew(self) -> None:
        """Begin a new epoch: the children stay, and none is waited for yet."""
        self._own = Gate()
        self._children = {child: Gate() for child in self._children}
        self._hastened = FIRST

    def frontier(self, released: int) -> int | None:
        """Return the interval below which no child is waited for; None if no child contributes."""
        lowest = earliest(self._own.frontier, *[gate.frontier for gate in self._children.values()])
        return None if lowest is None else max(lowest, released, self._hastened)

    def hasten(self, stop: int) -> bool:
        """Stop waiting for children below `stop`. Returns whether that is a change."""
        if stop <= self._hastened:
            return False
        self._hastened = stop
        return True

    # -- this agent

    def begin(self, start: int) -> bool:
        """Start this agent's contributions at `start`; False if it contributes already."""
        if self._own.frontier is not None:
            return False
        self._own.set(start)
        return True

    def reach(self, stop: int) -> None:
        """Record that this agent has claimed everything below `stop`."""
        self._own.set(stop if self._own.frontier is None else max(stop, self._own.frontier))

    def retire(self) -> None:
        self._own = Gate()

    # -- children

    def enter(self, child: bytes) -> None:
        self._children.setdefault(child, Gate())

    def place(self, child: bytes, frontier: int | None) -> None:
        self._children[child].set(frontier)

    def correct(self, child: bytes, frontier: int) -> bool:
        """Stop waiting for a child below `frontier`. Returns whether it was waited for."""
        gate = self._children.get(child)
        if gate is None or gate.frontier is None or gate.frontier >= frontier:
            return False
        gate.set(frontier)
        return True

    def claim(self, child: bytes, start: int, stop: int) -> None:
        """Record that a child has nothing more for the range except supplements."""
        gate = self._children.get(child)
        if gate is not None:
            gate.claim(start, stop)

    def leave(self, child: bytes) -> None:
        self._children.pop(child, None)

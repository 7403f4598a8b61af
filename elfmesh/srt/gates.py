"""How far every contributor of a tree has come at one agent: this agent itself and its children.

Owns the frontiers and what was claimed beyond them; refuses to know parts, coverage and who decides that
one child is not waited for.

Paper: ELF 3, Figure 9 (the barrier waits for the slowest).
"""

from __future__ import annotations

from elfmesh.machine import earliest
from elfmesh.srt.messages import FIRST


class Gate:
    """How far one contributor has come: everything below `frontier` is claimed; None = do not wait for it.

    Claims may arrive in any order; those beyond a hole wait in `ahead` until the hole is filled.
    """

    def __init__(self, frontier: int | None = None) -> None:
        self.frontier = frontier
        self._ahead: list[tuple[int, int]] = []

    def set(self, frontier: int | None) -> None:
        """The contributor says where it stands; claims already here still count."""
        self.frontier = frontier
        self._settle()

    def claim(self, start: int, stop: int) -> None:
        """The contributor has nothing more for [start, stop) but supplements."""
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
    """The gates of one tree at one agent."""

    def __init__(self) -> None:
        self._own = Gate()
        self._children: dict[bytes, Gate] = {}
        self._hastened = FIRST

    def renew(self) -> None:
        """Another epoch: the children are there, and none is waited for yet."""
        self._own = Gate()
        self._children = {child: Gate() for child in self._children}
        self._hastened = FIRST

    def frontier(self, released: int) -> int | None:
        """No child is waited for below: all have claimed it, or it is closed; None: no child contributes."""
        lowest = earliest(self._own.frontier, *[gate.frontier for gate in self._children.values()])
        return None if lowest is None else max(lowest, released, self._hastened)

    def hasten(self, stop: int) -> bool:
        """Wait for no child below `stop`; whether that is new."""
        if stop <= self._hastened:
            return False
        self._hastened = stop
        return True

    # -- this agent

    def begin(self, start: int) -> bool:
        """This agent contributes from `start` on; False if it does already."""
        if self._own.frontier is not None:
            return False
        self._own.set(start)
        return True

    def reach(self, stop: int) -> None:
        """This agent has claimed everything below `stop`."""
        self._own.set(stop if self._own.frontier is None else max(stop, self._own.frontier))

    def retire(self) -> None:
        self._own = Gate()

    # -- children

    def enter(self, child: bytes) -> None:
        self._children.setdefault(child, Gate())

    def place(self, child: bytes, frontier: int | None) -> None:
        self._children[child].set(frontier)

    def correct(self, child: bytes, frontier: int) -> bool:
        """Never wait for a child below `frontier`; whether it was waited for."""
        gate = self._children.get(child)
        if gate is None or gate.frontier is None or gate.frontier >= frontier:
            return False
        gate.set(frontier)
        return True

    def claim(self, child: bytes, start: int, stop: int) -> None:
        """A child has nothing more for the range but supplements."""
        gate = self._children.get(child)
        if gate is not None:
            gate.claim(start, stop)

    def leave(self, child: bytes) -> None:
        self._children.pop(child, None)

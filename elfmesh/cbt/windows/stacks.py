"""Two stacks for aggregates without an inverse over a sliding window: states by group number.

The front aggregates the older panes, from the newest of them to the oldest, and stores per pane the previous
states of its groups, so that the oldest pane is removed by restoring them. Newer panes are merged into the
back. When the front is used up, both are built again. Unless `stale`, `both` is the merge of all rows inside.

Paper: ELF 2.2 requires an inverse; this module is for aggregates without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.windows.registers import Register


class Undo(Struct):
    """States in the front of the groups of a block, before the block was merged.

    `ids` are int32, because a window of 2**31 groups exceeds every limit; `known` tells which of them had a
    state.
    """

    ids: np.ndarray
    known: np.ndarray
    states: list[State]

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.known.nbytes + sum(state.nbytes for state in self.states)


class Stacks(Struct):
    """Aggregates without an inverse: panes below `split` in front, others in back, and the merge of both.

    `undo` has for each pane of the front its previous states, in the order in which they were stored.
    """

    front: list[Register]
    back: list[Register]
    both: list[Register]
    split: int = 0
    undo: dict[int, list[Undo]] = field(default_factory=dict)
    stale: bool = True
    _notes_bytes: int = 0

    def leave(self, pane: int) -> None:
        if self.stale or pane >= self.split:
            self.stale = True
            return
        for undo in reversed(self.undo.pop(pane, [])):
            self._notes_bytes -= undo.nbytes
            for register, state in zip(self.front, undo.states, strict=True):
                register.forget(undo.ids[~undo.known])
                register.put(undo.ids[undo.known], state)
            self.refresh(undo.ids)

    def enter(self, pane: int, ids: np.ndarray, states: Sequence[State]) -> None:
        if pane < self.split:
            self.stale = True
        if self.stale:
            return
        for register, state in zip([*self.back, *self.both], [*states, *states], strict=True):
            register.merge(ids, state)

    def push(self, pane: int, ids: np.ndarray, states: Sequence[State]) -> None:
        """Merge rows while the stacks are built: first of the newest pane, then of older ones."""
        if pane < self.split:
            known = self.front[0].has(ids)
            before = [register.take(ids[known]) for register in self.front]
            undo = Undo(ids.astype(np.int32), known, before)
            self.undo.setdefault(pane, []).append(undo)
            self._notes_bytes += undo.nbytes
        for register, state in zip(self.front if pane < self.split else self.back, states, strict=True):
            register.merge(ids, state)

    def refresh(self, ids: np.ndarray) -> None:
        in_front, in_back = self.front[0].has(ids), self.back[0].has(ids)
        somewhere = in_front | in_back
        number = np.cumsum(somewhere) - 1
        places = np.concatenate([number[in_front], number[in_back]])
        groups = ids[somewhere]
        for front, back, both in zip(self.front, self.back, self.both, strict=True):
            both.forget(ids[~somewhere])
            if len(groups):
                halves = [
                    register.take(ids[mask])
                    for register, mask in ((front, in_front), (back, in_back))
                    if mask.any()
                ]
                both.put(groups, LAWS[halves[0].kind].merge(halves, places, len(groups)))

    def clear(self, split: int) -> None:
        self.split, self.undo, self.stale, self._notes_bytes = split, {}, False, 0
        for register in self.registers:
            register.clear()

    def renumber(self, ids: np.ndarray, number_of: np.ndarray) -> None:
        """Keep the groups `ids`; group g becomes number_of[g]."""
        for notes in self.undo.values():
            for undo in notes:
                undo.ids = number_of[undo.ids].astype(np.int32)
        for register in self.registers:
            register.renumber(ids)

    @property
    def registers(self) -> list[Register]:
        return [*self.front, *self.back, *self.both]

    @property
    def nbytes(self) -> int:
        return self._notes_bytes + sum(register.nbytes for register in self.registers)

"""One step of the plan of a structured topology (PPA IV-C1, Algorithm 3).

Deviations: a call is one step, because the paper's loop returns after its first; line 20 unites where the
paper intersects; line 15 compares with the room that is left, where the paper compares with `usage`. Of the
connected segments of a unit, the one of greatest value is taken, then that with the fewest new tasks, then
the first by names. What is outside the part counts as alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import Alive, Measure
from elfmesh.control.planning.mc_trees import alive_in, mc_trees, tasks_of, tree_of
from elfmesh.control.planning.parts import Part, unit_links, units
from elfmesh.control.planning.topology import Topology


@dataclass(frozen=True, eq=False, slots=True)
class SegmentedUnit:
    """A unit and its segments.

    Attributes:
        tasks: by segment, as rows over all tasks of the topology.
        values: by segment, the OF of the unit as a topology of its own in which only the segment lives.
        order: by segment, its position among their names.
    """

    tasks: Alive
    values: NDArray[np.float64]
    order: NDArray[np.intp]


class StructuredStep:
    """Adds segments to the plan of a structured part; what does not depend on the plan is computed once."""

    def __init__(self, topology: Topology, part: Part, measure: Measure) -> None:
        self._topology, self._measure = topology, measure
        self._outside = np.ones(len(topology), dtype=np.bool_)
        for at in part.operators:
            self._outside[list(topology.operators[at].tasks)] = False
        groups = units(topology, part)
        inside = set(unit_links(topology, part))
        cut = {pair for pair, _ in topology.pairs if pair not in inside}
        self._units = [_segments(topology, group, cut, measure) for group in groups]
        unit_of = {at: number for number, group in enumerate(groups) for at in group}
        self._linked: dict[tuple[int, int], Alive] = {}
        for sender, receiver in (pair for pair, _ in topology.pairs):
            ends = unit_of.get(sender), unit_of.get(receiver)
            if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
                continue
            for one, other in (ends, ends[::-1]):
                assert one is not None
                assert other is not None
                if (one, other) not in self._linked:
                    self._linked[one, other] = self._connections(one, other)
        self._visits = [self._breadth_first(at) for at in range(len(groups))]

    def step(self, plan: frozenset[int], room: int) -> frozenset[int]:
        """Return the plan with the densest candidate; the plan itself if none fits.

        Cost: two evaluations of all candidates together.
        """
        held = self._topology.mask(plan)
        fixed = held | self._outside
        missing = [(unit.tasks & ~held).sum(axis=1) for unit in self._units]
        starts = [np.flatnonzero((lacks > 0) & (lacks <= room)) for lacks in missing]
        alive = np.concatenate([unit.tasks[start] for unit, start in zip(self._units, starts, strict=True)])
        if not len(alive):
            return plan
        base, values = self._values(alive, fixed)
        ranks = [_ranked(unit, lacks) for unit, lacks in zip(self._units, missing, strict=True)]
        grown, first = np.zeros(len(alive), dtype=np.bool_), 0
        for at, start in enumerate(starts):
            rows = slice(first, first + len(start))
            searching = values[rows] <= base + 10.0**-TIE
            grown[rows] = self._grow(at, start, alive[rows], searching, held, room, ranks)
            first = rows.stop
        if grown.any():
            values[grown] = self._values(alive[grown], fixed)[1]
        densities = ((values - base) / (alive & ~held).sum(axis=1)).round(TIE)
        best = densities.max()
        ties = [frozenset(np.flatnonzero(alive[at]).tolist()) for at in np.flatnonzero(densities == best)]
        return plan | min(ties, key=self._topology.named)

    def _values(self, alive: Alive, fixed: Alive) -> tuple[float, NDArray[np.float64]]:
        """Return the OF with what is fixed alone, and with each row of `alive` besides."""
        found = self._measure(self._topology, np.concatenate((fixed[None, :], alive | fixed)))
        return float(found[0]), found[1:].copy()

    def _grow(
        self,
        at: int,
        start: NDArray[np.intp],
        new: Alive,
        searching: Alive,
        held: Alive,
        room: int,
        ranks: Sequence[NDArray[np.intp]],
    ) -> Alive:
        """Add connected segments of other units to the rows of `new` that search; return which have grown.

        Args:
            at: the unit of the segments with which the rows begin.
            start: these segments.
            new: by row, the tasks of the candidate; changed in place.
            searching: by row, whether the candidate alone raises nothing; changed in place.
            held: tasks of the plan.
            room: number of tasks that may be added.
            ranks: by unit and segment, the preference.
        """
        grown = np.zeros(len(start), dtype=np.bool_)
        chosen: dict[int, NDArray[np.intp]] = {at: start}
        for to in self._visits[at]:
            if not searching.any():
                break
            other, rank = self._units[to], ranks[to]
            connected = np.zeros((len(start), len(rank)), dtype=np.bool_)
            for by, segments in chosen.items():
                if (by, to) in self._linked:
                    connected |= self._linked[by, to][segments]
            best = np.where(connected, rank, len(rank)).argmin(axis=1)
            united = new | other.tasks[best]
            searching &= connected.any(axis=1) & ((united & ~held).sum(axis=1) <= room)
            new[searching] = united[searching]
            grown |= searching
            chosen[to] = best
        return grown

    def _connections(self, one: int, other: int) -> Alive:
        """Return whether a substream runs between two segments, by segments of two units."""
        ends = self._units[other].tasks
        found = np.zeros((len(self._units[one].tasks), len(ends)), dtype=np.bool_)
        for at, row in enumerate(self._units[one].tasks):
            near = {to for task in np.flatnonzero(row).tolist() for to in self._topology.neighbours[task]}
            found[at] = ends[:, sorted(near)].any(axis=1)
        return found

    def _breadth_first(self, start: int) -> list[int]:
        visited, queue = [start], [start]
        while queue:
            at = queue.pop(0)
            for to in range(len(self._units)):
                if (at, to) in self._linked and to not in visited:
                    visited.append(to)
                    queue.append(to)
        return visited[1:]


def _ranked(unit: SegmentedUnit, missing: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the position of each segment by value, then by the fewest new tasks, then by name."""
    order = np.lexsort((unit.order, missing, -unit.values))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return rank


def _segments(
    topology: Topology, group: tuple[int, ...], cut: set[tuple[int, int]], measure: Measure
) -> SegmentedUnit:
    """Return the MC-trees of a unit alone."""
    alone, back = topology.part(group, cut)
    trees = sorted(mc_trees(alone), key=lambda tree: alone.named(tasks_of(tree)))
    values = measure(alone, alive_in(trees, len(alone))).round(TIE)
    whole = [tree_of(back[task] for task in tasks_of(tree)) for tree in trees]
    return SegmentedUnit(alive_in(whole, len(topology)), values, np.arange(len(trees)))

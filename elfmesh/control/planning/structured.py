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
        columns: the tasks that any of its segments has.
        inside: by segment, which of these it has, as numbers, because products of them count tasks.
    """

    tasks: Alive
    values: NDArray[np.float64]
    order: NDArray[np.intp]
    columns: NDArray[np.intp]
    inside: NDArray[np.float32]

    def missing(self, held: Alive) -> NDArray[np.intp]:
        """Return how many tasks of each segment are not held."""
        return (self.inside @ (~held[self.columns]).astype(np.float32)).astype(np.intp)


class StructuredStep:
    """Adds segments to the plan of a structured part; what does not depend on the plan is computed once."""

    def __init__(self, topology: Topology, part: Part, measure: Measure) -> None:
        self._topology, self._measure = topology, measure
        self._by_name = sorted(range(len(topology)), key=lambda task: topology.names[task])
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
        missing = [unit.missing(held) for unit in self._units]
        starts = [np.flatnonzero((lacks > 0) & (lacks <= room)) for lacks in missing]
        alive = np.concatenate([unit.tasks[start] for unit, start in zip(self._units, starts, strict=True)])
        if not len(alive):
            return plan
        base, values = self._values(alive, fixed)
        costs = np.concatenate([lacks[start] for lacks, start in zip(missing, starts, strict=True)])
        ranks = [_ranked(unit, lacks) for unit, lacks in zip(self._units, missing, strict=True)]
        grown, first = np.zeros(len(alive), dtype=np.bool_), 0
        for at, start in enumerate(starts):
            rows = slice(first, first + len(start))
            searching = values[rows] <= base + 10.0**-TIE
            grown[rows] = self._grow(at, start, alive[rows], costs[rows], searching, room, missing, ranks)
            first = rows.stop
        if grown.any():
            values[grown] = self._values(alive[grown], fixed)[1]
        densities = ((values - base) / costs).round(TIE)
        best = densities.max()
        ties = np.flatnonzero(densities == best)
        chosen = ties[_first_by_names(alive[ties][:, self._by_name])]
        return plan | frozenset(np.flatnonzero(alive[chosen]).tolist())

    def _values(self, alive: Alive, fixed: Alive) -> tuple[float, NDArray[np.float64]]:
        """Return the OF with what is fixed alone, and with each row of `alive` besides."""
        found = self._measure(self._topology, np.concatenate((fixed[None, :], alive | fixed)))
        return float(found[0]), found[1:].copy()

    def _grow(
        self,
        at: int,
        start: NDArray[np.intp],
        new: Alive,
        costs: NDArray[np.intp],
        searching: Alive,
        room: int,
        missing: Sequence[NDArray[np.intp]],
        ranks: Sequence[NDArray[np.intp]],
    ) -> Alive:
        """Add connected segments of other units to the rows of `new` that search; return which have grown.

        Args:
            at: the unit of the segments with which the rows begin.
            start: these segments.
            new: by row, the tasks of the candidate; changed in place.
            costs: by row, how many of them the plan lacks; changed in place.
            searching: by row, whether the candidate alone raises nothing; changed in place.
            room: number of tasks that may be added.
            missing: by unit and segment, the number of tasks that the plan lacks.
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
            united = costs + missing[to][best]  # units have no task in common
            searching &= connected.any(axis=1) & (united <= room)
            new[searching] |= other.tasks[best[searching]]
            costs[searching] = united[searching]
            grown |= searching
            chosen[to] = best
        return grown

    def _connections(self, one: int, other: int) -> Alive:
        """Return whether a substream runs between two segments, by segments of two units."""
        begins, ends = self._units[one], self._units[other]
        near = np.zeros((len(begins.columns), len(ends.columns)), dtype=np.float32)
        place = {task: at for at, task in enumerate(ends.columns.tolist())}
        for at, task in enumerate(begins.columns.tolist()):
            near[at, [place[to] for to in self._topology.neighbours[task] if to in place]] = 1
        return (begins.inside @ near @ ends.inside.T) > 0

    def _breadth_first(self, start: int) -> list[int]:
        visited, queue = [start], [start]
        while queue:
            at = queue.pop(0)
            for to in range(len(self._units)):
                if (at, to) in self._linked and to not in visited:
                    visited.append(to)
                    queue.append(to)
        return visited[1:]


def _first_by_names(rows: Alive) -> int:
    """Return the row whose tasks come first, compared as tuples; the columns are ordered by name."""
    left, at = np.arange(len(rows)), 0
    while len(left) > 1:
        rest = rows[left, at:]
        ended = ~rest.any(axis=1)
        if ended.any():  # it is the beginning of all others
            return int(left[ended][0])
        firsts = rest.argmax(axis=1)
        left, at = left[firsts == firsts.min()], at + int(firsts.min()) + 1
    return int(left[0])


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
    tasks = alive_in(whole, len(topology))
    columns = np.flatnonzero(tasks.any(axis=0))
    inside = tasks[:, columns].astype(np.float32)
    return SegmentedUnit(tasks, values, np.arange(len(trees)), columns, inside)

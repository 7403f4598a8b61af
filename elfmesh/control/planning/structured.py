"""One step of the plan of a structured topology (PPA IV-C1, Algorithm 3).

Deviations: a call is one step, because the paper's loop returns after its first; line 20 unites where the
paper intersects; line 15 compares with the room that is left, where the paper compares with `usage`. Of the
connected segments of a unit, the one of greatest value is taken, then that with the fewest new tasks, then
the first by names. What is outside the part counts as alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
from numpy.typing import NDArray

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import Alive, Sets, TaskMeasure, packed
from elfmesh.control.planning.mc_trees import Tree, alive_in, mc_trees, tasks_of
from elfmesh.control.planning.parts import Part, unit_links, units
from elfmesh.control.planning.topology import Topology


@dataclass(frozen=True, eq=False, slots=True)
class SegmentedUnit:
    """A unit and its segments, ordered by the names of their tasks.

    Attributes:
        columns: the tasks that any of its segments has.
        inside: by segment, which of these it has, as numbers, because products of them count tasks.
        members: the same by task; the last segment is none.
        sets: by segment, the set of its tasks, with the first name in the highest bit; the last one is none.
        values: by segment, the OF of the unit as a topology of its own in which only the segment lives.
        ranks: by segment, the number of distinct greater values.
    """

    columns: NDArray[np.intp]
    inside: NDArray[np.float32]
    members: Alive
    sets: NDArray[np.object_]
    values: NDArray[np.float64]
    ranks: NDArray[np.intp]

    def missing(self, held: Alive) -> NDArray[np.intp]:
        """Return how many tasks of each segment are not held."""
        return (self.inside @ (~held[self.columns]).astype(np.float32)).astype(np.intp)

    def preferred(self, missing: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the segments by value, then by the fewest missing tasks, then by name."""
        return (self.ranks * (len(self.columns) + 1) + missing).argsort(kind="stable")


class StructuredStep:
    """Adds segments to the plan of a structured part; what does not depend on the plan is computed once.

    A candidate is one segment of each of some units: a column of numbers by unit, with -1 for no segment.
    """

    def __init__(self, topology: Topology, part: Part, measure: TaskMeasure) -> None:
        self._topology, self._measure = topology, measure
        self._by_name = sorted(range(len(topology)), key=lambda task: topology.names[task], reverse=True)
        bits = {task: 1 << at for at, task in enumerate(self._by_name)}
        self._outside = np.ones(len(topology), dtype=np.bool_)
        for at in part.operators:
            self._outside[list(topology.operators[at].tasks)] = False
        groups = units(topology, part)
        inside = set(unit_links(topology, part))
        cut = {pair for pair, _ in topology.pairs if pair not in inside}
        self._units = [_segments(topology, group, cut, measure, bits) for group in groups]
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
        stops = np.cumsum([len(unit.values) for unit in self._units]).tolist()
        self._rows = [
            slice(stop - len(unit.values), stop) for unit, stop in zip(self._units, stops, strict=True)
        ]
        self._single = np.full((len(self._units), stops[-1]), -1)
        for at, rows in enumerate(self._rows):
            self._single[at, rows] = np.arange(rows.stop - rows.start)
        self._single_rows = np.ascontiguousarray(self._tasks(self._single).T)
        self._single_sets = packed(self._single_rows)

    def step(self, plan: frozenset[int], room: int) -> frozenset[int]:
        """Return the plan with the densest candidate; the plan itself if none fits.

        Cost: two evaluations of all candidates together.
        """
        held = self._topology.mask(plan)
        fixed = held | self._outside
        missing = [unit.missing(held) for unit in self._units]
        costs = np.concatenate(missing)
        fit = (costs > 0) & (costs <= room)
        if not fit.any():
            return plan
        base = float(self._measure(self._topology, fixed[None, :])[0])
        values = self._values(self._single_rows, self._single_sets, fit, fixed, base)
        candidates = self._single.copy()
        searching = fit & (values <= base + 10.0**-TIE)
        grown = self._grow(candidates, costs, searching, room, missing)
        if grown.any():
            rows = self._tasks(candidates[:, grown]).T
            values[grown] = self._values(rows, None, np.ones(len(rows), dtype=np.bool_), fixed, base)
        fitting = np.flatnonzero(fit)
        densities = ((values[fitting] - base) / costs[fitting]).round(TIE)
        ties = candidates[:, fitting[densities == densities.max()]]
        sets = [unit.sets[segments] for unit, segments in zip(self._units, ties, strict=True)]
        chosen = _first_by_names(reduce(np.bitwise_or, sets).tolist())
        return plan | {self._by_name[at] for at in tasks_of(chosen)}

    def _tasks(self, candidates: NDArray[np.intp]) -> Alive:
        """Return the tasks of candidates, shape (tasks, candidates)."""
        tasks = np.zeros((len(self._topology), candidates.shape[1]), dtype=np.bool_)
        for unit, segments in zip(self._units, candidates, strict=True):
            if segments.max() >= 0:
                tasks[unit.columns] = unit.members[:, segments]
        return tasks

    def _values(
        self, rows: Alive, sets: Sets | None, wanted: Alive, fixed: Alive, base: float
    ) -> NDArray[np.float64]:
        """Return the OF with each candidate beside what is fixed.

        Args:
            rows: the tasks of each candidate.
            sets: the same, packed; None: they are not yet.
            wanted: the candidates to evaluate.
            fixed: the plan, and what is outside the part.
            base: the OF with what is fixed alone. While it is 0, few candidates raise it.
        """
        rises = wanted
        if not base:
            sets = packed(rows) if sets is None else sets
            rises = wanted & self._measure.raised(self._topology, fixed, sets, len(wanted))
        found = np.full(len(wanted), base)
        if rises.any():
            found[rises] = self._measure(self._topology, (rows if rises.all() else rows[rises]) | fixed)
        return found

    def _grow(
        self,
        candidates: NDArray[np.intp],
        costs: NDArray[np.intp],
        searching: Alive,
        room: int,
        missing: Sequence[NDArray[np.intp]],
    ) -> Alive:
        """Add connected segments of other units to the candidates that search; return which have grown.

        Args:
            candidates: single segments; changed in place.
            costs: by candidate, how many of its tasks the plan lacks; changed in place.
            searching: by candidate, whether it alone raises nothing; changed in place.
            room: number of tasks that may be added.
            missing: by unit and segment, the number of tasks that the plan lacks.
        """
        orders = [unit.preferred(lacks) for unit, lacks in zip(self._units, missing, strict=True)]

        @cache
        def nearest(one: int, other: int) -> NDArray[np.intp]:
            """By segment of a unit, the place in the order of the first segment of another one beside it."""
            linked = self._linked[one, other][:, orders[other]]
            place = linked.argmax(axis=1)
            return np.where(linked[np.arange(len(place)), place], place, len(orders[other]))

        grown = np.zeros(len(costs), dtype=np.bool_)
        for at, visits in enumerate(self._visits):
            rows = np.arange(*self._rows[at].indices(len(costs)))
            rows = rows[searching[rows]]
            chosen = {at: candidates[at, rows]}
            for to in visits:
                if not len(rows):
                    break
                beside = [nearest(by, to)[each] for by, each in chosen.items() if (by, to) in self._linked]
                place = np.min(beside, axis=0)
                is_connected = place < len(orders[to])
                best = orders[to][np.where(is_connected, place, 0)]
                united = costs[rows] + missing[to][best]  # units have no task in common
                goes_on = is_connected & (united <= room)
                rows, best = rows[goes_on], best[goes_on]
                chosen = {**{by: each[goes_on] for by, each in chosen.items()}, to: best}
                candidates[to, rows] = best
                costs[rows] = united[goes_on]
                grown[rows] = True
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


def _first_by_names(sets: list[Tree]) -> Tree:
    """Return the set whose names come first, compared as tuples.

    It is the greatest number, or the shortest set with which the names of that one begin.
    """
    greatest = max(sets)
    return min(each for each in sets if greatest ^ each < each & -each)


def _segments(
    topology: Topology,
    group: tuple[int, ...],
    cut: set[tuple[int, int]],
    measure: TaskMeasure,
    bits: Mapping[int, Tree],
) -> SegmentedUnit:
    """Return the MC-trees of a unit alone, by name; `bits`: of all tasks."""
    alone, back = topology.part(group, cut)
    named = {tree: sum(bits[back[task]] for task in tasks_of(tree)) for tree in mc_trees(alone)}
    trees = sorted(named, key=lambda tree: sorted(-bits[back[task]] for task in tasks_of(tree)))
    sets = np.array([*(named[tree] for tree in trees), 0], dtype=object)
    tasks = alive_in(trees, len(alone))
    values = measure(alone, tasks).round(TIE)
    used = np.flatnonzero(tasks.any(axis=0))
    members = np.concatenate((tasks[:, used].T, np.zeros((len(used), 1), dtype=np.bool_)), axis=1)
    ranks = np.unique(-values, return_inverse=True)[1]
    columns, inside = np.array(back)[used], tasks[:, used].astype(np.float32)
    return SegmentedUnit(columns, inside, members, sets, values, ranks)

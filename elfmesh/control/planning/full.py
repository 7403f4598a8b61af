"""One step of the plan of a full topology (PPA IV-C2, Algorithm 4).

Deviation: of the candidates, the paper takes `max_accuracy_plan`, which it does not define; the plan of
greatest fidelity is meant. What is outside the part counts as alive.
"""

from __future__ import annotations

import numpy as np

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import TaskMeasure
from elfmesh.control.planning.parts import Part
from elfmesh.control.planning.topology import Topology


class FullStep:
    """Adds tasks to the plan of a full part; what does not depend on the plan is computed once."""

    def __init__(self, topology: Topology, part: Part, measure: TaskMeasure) -> None:
        self._topology, self._measure = topology, measure
        self._outside = np.ones(len(topology), dtype=np.bool_)
        self._ranked: list[list[int]] = []
        for at in part.operators:
            tasks = list(topology.operators[at].tasks)
            self._outside[tasks] = False
        for at in part.operators:
            tasks = list(topology.operators[at].tasks)
            alone = np.ones((len(tasks), len(topology)), dtype=np.bool_)
            alone[:, tasks] = np.eye(len(tasks), dtype=np.bool_)
            gains = measure(topology, alone).round(TIE).tolist()  # δ of every task
            order = sorted(
                zip(gains, tasks, strict=True), key=lambda each: (-each[0], topology.names[each[1]])
            )
            self._ranked.append([task for _, task in order])

    def step(self, plan: frozenset[int], room: int) -> frozenset[int]:
        """Return the plan with one more step: a task of every operator at first, then the best next task."""
        if not plan:
            first = frozenset(ranked[0] for ranked in self._ranked)
            return first if len(first) <= room else plan
        left = (next((task for task in ranked if task not in plan), None) for ranked in self._ranked)
        candidates = [task for task in left if task is not None]
        if not candidates or room < 1:
            return plan
        alive = np.repeat((self._outside | self._topology.mask(plan))[None, :], len(candidates), axis=0)
        alive[np.arange(len(candidates)), candidates] = True
        values = self._measure(self._topology, alive).round(TIE).tolist()
        best = min(
            zip(values, candidates, strict=True), key=lambda each: (-each[0], self._topology.names[each[1]])
        )
        return plan | {best[1]}

"""Brute force: the fidelity of every set of tasks of a small topology."""

from __future__ import annotations

import itertools
import random

import numpy as np

from elfmesh.control.planning.fidelity import Alive, Amounts, fidelities
from elfmesh.control.planning.topology import Topology
from tests.control.planning.topologies import random_topology

TASKS_MAX = 11


class Brute:
    """All plans of a topology, with what each costs and keeps."""

    def __init__(self, topology: Topology) -> None:
        self.plans: Alive = np.array(list(itertools.product((False, True), repeat=len(topology))))
        self.values: Amounts = fidelities(topology, self.plans)
        self.costs: Amounts = self.plans @ topology.costs
        self.sizes = self.plans.sum(axis=1)

    def optimum(self, budget: float) -> float:
        return float(self.values[self.costs <= budget].max())


def small_topologies(count: int, *, costs: bool = False, tasks_max: int = TASKS_MAX) -> list[Topology]:
    """Random topologies of few tasks: structured, full and mixed, with and without joins and shared tasks."""
    found: list[Topology] = []
    seed = 0
    while len(found) < count:
        dice = random.Random(seed)
        seed += 1
        topology = random_topology(
            dice,
            shape=dice.choice(("structured", "full", "mixed")),
            joins=dice.choice((0.0, 0.5, 1.0)),
            shared=dice.random() < 0.5,
            costs=(1, 2, 3) if costs else (),
        )
        if len(topology) <= tasks_max:
            found.append(topology)
    return found

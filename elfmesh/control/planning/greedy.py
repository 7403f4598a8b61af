"""The tasks whose loss alone costs most (PPA IV-B, Algorithm 2).

Deviation: the paper takes the "top-R" of an ascending order; the R tasks of least fidelity are meant.
"""

from __future__ import annotations

import numpy as np

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import TaskMeasure, fidelities
from elfmesh.control.planning.topology import Topology


def greedy(topology: Topology, budget: int, measure: TaskMeasure = fidelities) -> frozenset[int]:
    """Return the `budget` tasks whose loss alone leaves the least; ties by name."""
    alone = measure(topology, ~np.eye(len(topology), dtype=np.bool_)).round(TIE).tolist()
    ranked = sorted(range(len(topology)), key=lambda task: (alone[task], topology.names[task]))
    return frozenset(ranked[:budget])

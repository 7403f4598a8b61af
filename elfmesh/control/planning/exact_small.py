"""The optimal plan of a small topology of any shape: every set of tasks is valued.

Invariant: of the plans of the greatest fidelity, the plan is one of least cost, and the first of these in the
order of the tasks.
"""

from __future__ import annotations

import numpy as np

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import fidelities
from elfmesh.control.planning.topology import Topology

SMALL_TASKS_MAX = 14
"""Tasks up to which all sets are valued, because each further task doubles the 16,384 sets."""


def is_small(topology: Topology) -> bool:
    """Return whether all sets of tasks can be valued."""
    return len(topology) <= SMALL_TASKS_MAX


def exact_small(topology: Topology, budget: float) -> tuple[frozenset[int], tuple[tuple[float, float], ...]]:
    """Return the optimum of a budget, and the least costs of each fidelity up to it.

    Cost: substreams times 2 to the number of tasks.
    """
    tasks = np.arange(len(topology))
    plans = (np.arange(1 << len(topology))[:, None] >> tasks & 1).astype(np.bool_)
    costs = plans @ topology.costs
    order = np.argsort(costs, kind="stable")
    order = order[costs[order] <= budget]
    plans, costs = plans[order], costs[order]
    best = np.maximum.accumulate(np.round(fidelities(topology, plans), TIE))
    rises = np.flatnonzero(np.diff(best, prepend=-1.0) > 0)
    curve = dict(zip(costs[rises].tolist(), np.minimum(best[rises], 1.0).tolist(), strict=True))
    return frozenset(tasks[plans[rises[-1]]].tolist()), tuple(curve.items())

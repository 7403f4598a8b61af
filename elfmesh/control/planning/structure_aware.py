"""Plans part by part (PPA IV-C3, Algorithm 5).

Deviations: a part may use the rest of the budget, because the paper does not define R_i. A step adds one task
or one candidate, because Algorithm 4 as printed would spend the budget in the first full part. The cost of a
step is the number of tasks that it adds. Below one replica for each operator the plan is empty, as printed.
"""

from __future__ import annotations

import numpy as np

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import TaskMeasure, fidelities
from elfmesh.control.planning.full import FullStep
from elfmesh.control.planning.parts import split
from elfmesh.control.planning.structured import StructuredStep
from elfmesh.control.planning.topology import Topology


def structure_aware(topology: Topology, budget: int, measure: TaskMeasure = fidelities) -> frozenset[int]:
    """Return the plan of Algorithm 5.

    Args:
        topology: the topology.
        budget: number of tasks.
        measure: fidelity, or internal completeness for the plans that Fig. 12 compares.
    """
    if budget < len(topology.operators):
        return frozenset()
    planners = [
        FullStep(topology, part, measure) if part.full else StructuredStep(topology, part, measure)
        for part in split(topology)
    ]
    plans: list[frozenset[int]] = []
    used = 0
    for planner in planners:
        plans.append(planner.step(frozenset(), budget - used))
        used += len(plans[-1])
    nexts = [planner.step(plan, budget - used) for planner, plan in zip(planners, plans, strict=True)]
    while used < budget:
        room = budget - used
        for at, planner in enumerate(planners):
            if len(nexts[at]) - len(plans[at]) > room:  # planned while there was more room
                nexts[at] = planner.step(plans[at], room)
        chosen = [at for at in range(len(plans)) if len(nexts[at]) > len(plans[at])]
        if not chosen:
            break
        held = topology.mask(task for plan in plans for task in plan)
        rows = [held, *(held | topology.mask(nexts[at]) for at in chosen)]
        base, *values = measure(topology, np.array(rows)).tolist()
        densities = {
            at: round((value - base) / (len(nexts[at]) - len(plans[at])), TIE)
            for at, value in zip(chosen, values, strict=True)
        }
        best = max(chosen, key=lambda at: (densities[at], -at))
        used += len(nexts[best]) - len(plans[best])
        plans[best] = nexts[best]
        nexts[best] = planners[best].step(plans[best], budget - used)
    return frozenset(task for plan in plans for task in plan)

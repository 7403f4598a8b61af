"""The optimal plan where every task sends to one task: reducer trees, and chains of merges.

Subtrees share no task, so that the best division of a budget among the senders of a task is found by
combining their curves; O(tasks * budget) cells. The curve of the sinks has the optimum of every budget.
"""

from __future__ import annotations

import numpy as np

from elfmesh.control.planning.combining import Budgeted, Scale, all_of, behind, leaf, weighted
from elfmesh.control.planning.fidelity import weighted_inputs
from elfmesh.control.planning.topology import Topology


def is_forest(topology: Topology) -> bool:
    """Return whether every task sends to at most one task."""
    sent = np.zeros(len(topology), dtype=int)
    for _, stream in topology.pairs:
        np.add.at(sent, stream.senders, 1)
    return bool((sent <= 1).all())


def exact_forest(topology: Topology, scale: Scale) -> Budgeted:
    """Return the optimum of every budget; the topology must be a forest."""
    curves: list[Budgeted] = []
    for operator in topology.operators:
        inputs = weighted_inputs(topology, operator)
        below: list[list[Budgeted]] = [[] for _ in operator.tasks]
        for each in inputs:
            stops = [*each.starts.tolist()[1:], len(each.senders)]
            for receiver, start, stop in zip(
                each.receivers.tolist(), each.starts.tolist(), stops, strict=True
            ):
                parts = [
                    weighted(curves[sender], weight)
                    for sender, weight in zip(
                        each.senders[start:stop].tolist(), each.weights[start:stop].tolist(), strict=True
                    )
                ]
                below[receiver].append(all_of(parts, scale.limit, product=False))
        for task, streams in zip(operator.tasks, below, strict=True):
            units = scale.units[task]
            if streams:
                whole = all_of(streams, scale.limit, product=True)
                curves.append(behind(whole, task, units, scale.limit))
            else:
                curves.append(leaf(task, units, scale.limit))
    sinks = [
        weighted(curves[task], float(topology.sink_weights[task]))
        for sink in topology.sinks
        for task in topology.operators[sink].tasks
    ]
    return all_of(sinks, scale.limit, product=False)

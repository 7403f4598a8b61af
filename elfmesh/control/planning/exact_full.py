"""The optimal plan where every task sends to all tasks of the next operator.

All tasks of an operator then receive the same, so that only the share of an operator that lives counts, and
the heaviest tasks are best. The operators must form trees: each sends to at most one other.
"""

from __future__ import annotations

import math

import numpy as np

from elfmesh.control.planning.combining import Budgeted, Scale, all_of, combined, leaf, weighted
from elfmesh.control.planning.fidelity import Amounts, WeightedInputs, weighted_inputs
from elfmesh.control.planning.topology import Operator, Topology


def is_full(topology: Topology) -> bool:
    """Return whether the operators form trees, and all receivers of one take the same shares."""
    senders = [sender for (sender, _), _ in topology.pairs]
    return (
        len(senders) == len(set(senders))
        and not any(at in topology.sinks for at in senders)
        and all(
            each.uniform and len(each.receivers) == operator.stop - operator.first
            for operator in topology.operators
            for each in weighted_inputs(topology, operator)
        )
        and all(
            len(stream.senders) == math.prod(len(topology.operators[at].tasks) for at in pair)
            for pair, stream in topology.pairs
        )
    )


def exact_full(topology: Topology, scale: Scale) -> Budgeted:
    """Return the optimum of every budget; the topology must be full."""
    curves: list[Budgeted] = []
    weights = np.array(topology.sink_weights)
    for operator in topology.operators:
        for each in weighted_inputs(topology, operator):
            weights[each.senders[: each.fan_in]] = each.weights[: each.fan_in]
    for operator in topology.operators:
        tasks = list(operator.tasks)
        total = float(weights[tasks].sum()) or 1.0
        own = _heaviest(tasks, weights[tasks] / total, scale)
        inputs = [
            _arriving(topology, operator, each, curves, weights, scale)
            for each in weighted_inputs(topology, operator)
        ]
        curves.append(
            combined(own, all_of(inputs, scale.limit, product=True), scale.limit, product=True)
            if inputs
            else own
        )
    sinks = [
        weighted(curves[at], float(topology.sink_weights[list(topology.operators[at].tasks)].sum()))
        for at in topology.sinks
    ]
    return all_of(sinks, scale.limit, product=False)


def _arriving(
    topology: Topology,
    operator: Operator,
    inputs: WeightedInputs,
    curves: list[Budgeted],
    weights: Amounts,
    scale: Scale,
) -> Budgeted:
    """Return the curve of what one group of streams brings: each sending operator by its weight."""
    senders = set(inputs.senders[: inputs.fan_in].tolist())
    parts = []
    for each in operator.inputs:
        tasks = list(topology.operators[each.sender].tasks)
        if tasks[0] in senders:
            parts.append(weighted(curves[each.sender], float(weights[tasks].sum())))
    return all_of(parts, scale.limit, product=False)


def _heaviest(tasks: list[int], weights: Amounts, scale: Scale) -> Budgeted:
    """Return the greatest share of an operator for every budget: a knapsack where costs differ."""
    order = sorted(zip(tasks, weights.tolist(), strict=True), key=lambda each: (-each[1], each[0]))
    units = {scale.units[task] for task in tasks}
    if len(units) == 1:
        step = units.pop()
        count = min(len(order), scale.limit // step)
        values = np.zeros(count * step + 1)
        chosen: list[tuple[int, ...]] = [()]
        for at, (task, weight) in enumerate(order[:count], 1):
            here = values[(at - 1) * step]
            values[(at - 1) * step + 1 : at * step] = here
            values[at * step] = here + weight
            chosen += [chosen[-1]] * (step - 1) + [(*chosen[-1], task)]
        return Budgeted(values, tasks=tuple(chosen))
    curves = [weighted(leaf(task, scale.units[task], scale.limit), weight) for task, weight in order]
    return all_of(curves, scale.limit, product=False)

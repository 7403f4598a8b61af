"""Plans any topology path by path, and improves plans.

Owns the search for *completions*: tasks that complete MC-trees together with what a plan has. One pass over
the substreams finds the best way up from every task to sources, a second one the best way down to a sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elfmesh.control.planning.dp import TIE
from elfmesh.control.planning.fidelity import (
    Amounts,
    TaskMeasure,
    WeightedInputs,
    fidelities,
    task_values,
    weighted_inputs,
)
from elfmesh.control.planning.mc_trees import Tree, alive_in, tasks_of, tree_of
from elfmesh.control.planning.topology import Operator, Topology

BATCH = 16
"""Completions that are evaluated together."""

ONE_BY_ONE_MAX = 200
NEAR = 0.8
"""In topologies of more tasks, one search adds all completions with this share of the greatest density."""

STARTS, STARTS_TASKS = 40, 2_000
"""First completions that small topologies try, and the product of their number and the number of tasks."""

LEFT_OUT = 40
"""Tasks of a plan that `polish` tries to leave out, those of least effect first."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Tasks that are missing from a way, and how much of the result or of an input takes it."""

    value: float
    missing: Tree
    cost: float

    @property
    def density(self) -> float:
        return self.value / (self.cost + 0.5)


class Paths:
    """Searches the completions of plans of one topology.

    Args:
        topology: the topology.
        outside: tasks that live without a replica, for plans against the loss of one domain.
    """

    def __init__(self, topology: Topology, outside: Tree = 0, measure: TaskMeasure = fidelities) -> None:
        self._topology, self._outside, self._measure = topology, outside, measure
        self._costs: list[float] = topology.costs.tolist()
        self._near = 1.0 if len(topology) <= ONE_BY_ONE_MAX else NEAR

    def cost(self, tasks: Tree) -> float:
        if self._topology.uniform_costs:
            return float(tasks.bit_count())
        return sum(self._costs[task] for task in tasks_of(tasks))

    def value(self, *plans: Tree) -> list[float]:
        alive = alive_in([plan | self._outside for plan in plans], len(self._topology))
        return [float(value) for value in self._measure(self._topology, alive).round(TIE)]

    def fill(self, plan: Tree, budget: float, banned: Tree = 0) -> Tree:
        """Return the plan with completions, the densest first, while one fits and raises the measure."""
        (reached,) = self.value(plan)
        while (room := budget - self.cost(plan) + 1e-9) > 0:
            fitting = [each for each in self.completions(plan, banned) if self.cost(each) <= room]
            dense: list[tuple[float, Tree]] = []
            for at in range(0, len(fitting), BATCH):
                batch = fitting[at : at + BATCH]
                values = self.value(*(plan | each for each in batch))
                dense = [
                    (round((value - reached) / self.cost(each), TIE), each)
                    for each, value in zip(batch, values, strict=True)
                    if value > reached
                ]
                if dense:
                    break
            if not dense:
                return plan
            densest = max(density for density, _ in dense)
            for density, each in dense:
                if density >= densest * self._near and self.cost(plan | each) <= budget + 1e-9:
                    plan |= each
                    if self._near == 1:
                        break
            (reached,) = self.value(plan)
        return plan

    def best_start(self, budget: float) -> Tree:
        """Return the best of the plans that begin with different completions; large topologies have one.

        Where rates are equal, completions are, and an optimum needs one of them.
        """
        plan = self.fill(0, budget)
        if len(self._topology) > ONE_BY_ONE_MAX:
            return plan
        starts = [each for each in self.completions(0) if self.cost(each) <= budget]
        count = min(STARTS, STARTS_TASKS // len(self._topology))
        plans = [plan, *(self.fill(each, budget) for each in starts[:count])]
        return max(zip(self.value(*plans), (-at for at in range(len(plans))), plans, strict=True))[2]

    def completions(self, plan: Tree, banned: Tree = 0) -> list[Tree]:
        """Return sets of missing tasks, each of which completes an MC-tree; the densest first."""
        held = plan | self._outside
        values = task_values(self._topology, alive_in([held], len(self._topology)))[:, 0]
        up, arriving = self._up(held, banned, values)
        down = self._down(held, banned, arriving)
        found: dict[Tree, float] = {}
        for one, other in zip(up, down, strict=True):
            if one is None or other is None:
                continue
            missing = one.missing | other.missing
            if missing:
                density = one.value * other.value / (self.cost(missing) + 0.5)
                found[missing] = max(found.get(missing, 0.0), density)
        return sorted(found, key=lambda each: (-round(found[each], TIE), each.bit_count(), each))

    def _up(self, held: Tree, banned: Tree, values: Amounts) -> tuple[list[_Way | None], list[_Best]]:
        """Return the best way from every task up to sources, if there is one, and those of each input."""
        found: list[_Way | None] = []
        arriving: list[_Best] = []
        for operator in self._topology.operators:
            inputs = weighted_inputs(self._topology, operator)
            best = [self._best(operator, each, found, values) for each in inputs]
            arriving += best
            for task in operator.tasks:
                own = 1 << task & ~held
                way: _Way | None = None if own & banned else self._way(1.0, own)
                for group in best:
                    if way is not None and task in group:
                        input_ = group[task]
                        way = (
                            self._way(way.value * input_.value, way.missing | input_.missing)
                            if input_
                            else None
                        )
                if way is not None and not own and operator.inputs and values[task] > 0:
                    kept = _Way(float(values[task]), 0, 0.0)
                    way = kept if kept.density >= way.density else way
                found.append(way)
        return found, arriving

    def _best(
        self, operator: Operator, inputs: WeightedInputs, up: list[_Way | None], values: Amounts
    ) -> _Best:
        """Return for every receiver the best way through one substream, beside what arrives already."""
        found: _Best = {}
        for receivers, senders, weights in _substreams(operator, inputs):
            arriving = float(values[senders] @ weights)
            best: _Way | None = _Way(arriving, 0, 0.0) if arriving > 0 else None
            density = best.density if best else 0.0
            for sender, weight in zip(senders.tolist(), weights.tolist(), strict=True):
                way = up[sender]
                if way is None or not way.missing:
                    continue
                value = arriving + weight * way.value
                if value / (way.cost + 0.5) > density:
                    best = _Way(value, way.missing, way.cost)
                    density = best.density
            found.update(dict.fromkeys(receivers, best))
        return found

    def _down(self, held: Tree, banned: Tree, arriving: list[_Best]) -> list[_Way | None]:
        """Return the best way from every task down to a sink, without the task itself, if there is one."""
        shares = self._topology.sink_weights.tolist()
        found: list[_Way | None] = [_Way(share, 0, 0.0) if share > 0 else None for share in shares]
        last = len(arriving)
        for operator in reversed(self._topology.operators):
            inputs = weighted_inputs(self._topology, operator)
            groups = arriving[last - len(inputs) : last]
            last -= len(inputs)
            for at, each in enumerate(inputs):
                others = groups[:at] + groups[at + 1 :]
                for receivers, senders, weights in _substreams(operator, each):
                    ways = [self._through(to, held, banned, found, others) for to in receivers]
                    through = max((way for way in ways if way), key=lambda way: way.density, default=None)
                    if through is None:
                        continue
                    for sender, weight in zip(senders.tolist(), weights.tolist(), strict=True):
                        way, value = found[sender], weight * through.value
                        if value > 0 and (way is None or value / (through.cost + 0.5) > way.density):
                            found[sender] = _Way(value, through.missing, through.cost)
        return found

    def _through(
        self, task: int, held: Tree, banned: Tree, down: list[_Way | None], others: list[_Best]
    ) -> _Way | None:
        """Return the way from the inputs of a task down, with the other inputs that it needs."""
        way, own = down[task], 1 << task & ~held
        if way is None or own & banned:
            return None
        value, missing = way.value, way.missing | own
        for group in others:
            if task in group:
                input_ = group[task]
                if input_ is None:
                    return None
                value *= input_.value
                missing |= input_.missing
        return self._way(value, missing)

    def _way(self, value: float, missing: Tree) -> _Way:
        return _Way(value, missing, self.cost(missing))


_Best = dict[int, "_Way | None"]
"""By receiver: the best way of one of its inputs; None if nothing arrives."""


def _substreams(
    operator: Operator, inputs: WeightedInputs
) -> Iterator[tuple[list[int], NDArray[np.intp], Amounts]]:
    """Yield receivers with the same senders and weights: all of them together if they are uniform."""
    receivers = (operator.first + inputs.receivers).tolist()
    if inputs.uniform:
        yield receivers, inputs.senders[: inputs.fan_in], inputs.weights[: inputs.fan_in]
        return
    stops = [*inputs.starts.tolist()[1:], len(inputs.senders)]
    for receiver, start, stop in zip(receivers, inputs.starts.tolist(), stops, strict=True):
        yield [receiver], inputs.senders[start:stop], inputs.weights[start:stop]


def paths(topology: Topology, budget: float) -> frozenset[int]:
    """Return a plan made of completions, polished."""
    search = Paths(topology)
    return frozenset(tasks_of(polished(search, search.best_start(budget), budget)))


def polished(search: Paths, plan: Tree, budget: float) -> Tree:
    """Improve a plan: drop tasks without effect, then leave out each of some tasks in turn and fill again."""
    plan = search.fill(_effective(search, plan), budget)
    (reached,) = search.value(plan)
    tasks = tasks_of(plan)
    without = search.value(*(plan & ~(1 << task) for task in tasks)) if tasks else []
    ranked = sorted(zip([-value for value in without], tasks, strict=True))
    for _, task in ranked[:LEFT_OUT]:
        if not plan >> task & 1:
            continue
        other = search.fill(_effective(search, plan & ~(1 << task)), budget, banned=1 << task)
        (value,) = search.value(other)
        if value > reached:
            plan, reached = _effective(search, other), value
    return search.fill(plan, budget)


def _effective(search: Paths, plan: Tree) -> Tree:
    """Return the plan without tasks whose loss changes nothing: no MC-tree inside the plan has them."""
    if not plan:
        return plan
    tasks = tasks_of(plan)
    reached, *values = search.value(plan, *(plan & ~(1 << task) for task in tasks))
    return tree_of(task for task, value in zip(tasks, values, strict=True) if value < reached)

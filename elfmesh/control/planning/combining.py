"""Combines curves of fidelity by budget: the best division of a budget among independent parts.

A curve has the greatest value for every number of units of the budget, and never falls. A `Budgeted` curve
also keeps which tasks reach each value, as the division at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from elfmesh.control.planning.topology import Topology

Curve = NDArray[np.float64]
COST_STEPS = 1000
"""Units of a budget if costs are no whole numbers: each cost is rounded up to a unit."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Costs in whole units of the budget.

    Attributes:
        units: by task.
        limit: units of the budget.
        unit: cost of one unit.
        exact: whether no cost was rounded.
    """

    units: tuple[int, ...]
    limit: int
    unit: float
    exact: bool


def scaled(topology: Topology, budget: float) -> Scale:
    """Return costs and budget in units: of 1 if all costs are whole, of 1/1000 of the budget otherwise."""
    total = float(topology.costs.sum())
    limit = min(budget, total)
    if (topology.costs == np.floor(topology.costs)).all() and limit <= 10 * max(len(topology), COST_STEPS):
        return Scale(tuple(topology.costs.astype(int).tolist()), int(limit), 1.0, exact=True)
    unit = limit / COST_STEPS or 1.0
    units = np.ceil(topology.costs / unit - 1e-9).astype(int)
    return Scale(tuple(units.tolist()), COST_STEPS if limit else 0, unit, exact=False)


@dataclass(frozen=True, eq=False, slots=True)
class Budgeted:
    """A curve, and how each of its values is reached.

    Attributes:
        values: by units spent.
        parts: curves that were combined last; empty for one of `tasks`.
        split: by units spent, the units of the second part; it counts where the curve rises.
        tasks: by units spent, the tasks of a curve without parts.
        own: task that is needed for all values above 0, and its units; -1 if there is none.
    """

    values: Curve
    parts: tuple[Budgeted, ...] = ()
    split: NDArray[np.intp] | None = None
    tasks: tuple[tuple[int, ...], ...] = ()
    own: int = -1
    own_units: int = 0


def leaf(task: int, units: int, limit: int) -> Budgeted:
    """Return the curve of a task without inputs."""
    if units > limit:
        return Budgeted(np.zeros(1), tasks=((),))
    values = np.zeros(units + 1)
    values[units] = 1.0
    return Budgeted(values, tasks=((),) * units + ((task,),))


def weighted(curve: Budgeted, weight: float) -> Budgeted:
    """Return the curve times a weight, with the same divisions."""
    return replace(curve, values=curve.values * weight)


def combined(one: Budgeted, other: Budgeted, limit: int, *, product: bool) -> Budgeted:
    """Return the best values of both parts together, sums or products, for every budget up to `limit`."""
    if len(one.values) < len(other.values):
        one, other = other, one
    size = min(len(one.values) + len(other.values) - 1, limit + 1)
    best = np.full(size, -1.0)
    split = np.zeros(size, dtype=np.intp)
    for units, value in enumerate(other.values[:size].tolist()):
        if units and value <= float(other.values[units - 1]):
            continue  # the same value costs less
        count = min(len(one.values), size - units)
        here = one.values[:count] * value if product else one.values[:count] + value
        part = best[units : units + count]
        better = here > part
        part[better] = here[better]
        split[units : units + count][better] = units
    return Budgeted(np.maximum.accumulate(best), (one, other), split)


def behind(curve: Budgeted, task: int, units: int, limit: int) -> Budgeted:
    """Return the curve of a task whose inputs have this curve: nothing without the task."""
    count = min(len(curve.values) + units, limit + 1)
    if count <= units:
        return Budgeted(np.zeros(1), tasks=((),))
    values = np.zeros(count)
    values[units:] = curve.values[: count - units]
    return Budgeted(values, (curve,), own=task, own_units=units)


def trace(curve: Budgeted, units: int) -> list[int]:
    """Return tasks that reach the value of `units`."""
    found: list[int] = []
    stack: list[tuple[Budgeted, int]] = [(curve, units)]
    while stack:
        at, left = stack.pop()
        left = min(left, len(at.values) - 1)
        left = int(np.searchsorted(at.values, at.values[left]))  # the least units with this value
        if at.values[left] <= 0:
            continue
        if at.own >= 0:
            found.append(at.own)
            stack.append((at.parts[0], left - at.own_units))
        elif at.split is not None:
            second = int(at.split[left])
            stack += [(at.parts[0], left - second), (at.parts[1], second)]
        else:
            found.extend(at.tasks[left])
    return found


def all_of(curves: Sequence[Budgeted], limit: int, *, product: bool) -> Budgeted:
    """Return the combination of several curves, of at least one."""
    queue = sorted(curves, key=lambda each: len(each.values))
    total = queue[0]
    for each in queue[1:]:
        total = combined(total, each, limit, product=product)
    return total

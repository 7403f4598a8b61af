"""Output fidelity of a topology of which only some tasks are alive (PPA III-A, Eq. 1-4).

Owns the formulas, for one set of alive tasks and for many at once, and internal completeness, with which the
paper compares fidelity (Fig. 12). Whether tasks raise a measure at all is answered without the formulas, for
eight sets in each byte.

The formulas are stated for what arrives, 1 - IL, because products and sums of it need no subtraction. Where
all receivers of an operator have the same shares of all senders, as behind a full partitioning, the sum is
made once for the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elfmesh.control.planning.topology import Operator, Topology, shares

CELLS_MAX = 1 << 22
"""Numbers of one step of `fidelities`; larger sets of sets are evaluated in several steps."""

ADDED_MAX = 8
"""Rows of a sum up to which they are added one by one, because `reduceat` takes several times as long."""

Alive = NDArray[np.bool_]
Amounts = NDArray[np.float64]
Sets = NDArray[np.uint8]
"""Sets of tasks, tasks first, with eight sets in each byte (`packed`)."""


@dataclass(frozen=True, eq=False, slots=True)
class WeightedInputs:
    """Weighted substreams into the tasks of an operator.

    Attributes:
        receivers: tasks with at least one of these substreams, relative to the operator.
        senders: by substream, ordered by receiver.
        weights: by substream; those of one receiver sum to 1.
        starts: position of the first substream of each receiver.
        uniform: whether all receivers have the senders and weights of the first.
        sent, first_sent: the senders of all receivers, and of the first; a slice if they follow each other,
            because it copies nothing.
        counted: by substream, 255, or 0 if its weight is 0; None: all have a weight.
    """

    receivers: NDArray[np.intp]
    senders: NDArray[np.intp]
    weights: Amounts
    starts: NDArray[np.intp]
    uniform: bool
    sent: slice | NDArray[np.intp]
    first_sent: slice | NDArray[np.intp]
    counted: Sets | None

    @property
    def fan_in(self) -> int:
        """Number of senders of the first receiver, and of all others if they are uniform."""
        return int(self.starts[1]) if len(self.starts) > 1 else len(self.senders)

    def arriving(self, values: Amounts) -> Amounts:
        """Return the share that arrives at each of `receivers`, shape (receivers, sets) (Eq. 1)."""
        if self.uniform:
            count = self.fan_in
            share = self.weights[:count] @ values[self.first_sent]
            return np.broadcast_to(share, (len(self.receivers), values.shape[1]))
        sent = values[self.sent]
        if len(self.senders) == len(self.receivers):
            return sent  # each receiver has one sender
        return _added(sent * self.weights[:, None], self.starts)

    def any(self, sets: Sets) -> Sets:
        """Return the sets with any sender of each of `receivers`."""
        sent = sets[self.sent]
        if self.counted is not None:
            sent = sent & self.counted[:, None]
        if len(self.senders) == len(self.receivers):
            return sent
        if len(self.starts) == 1:
            return np.bitwise_or.reduce(sent, axis=0, keepdims=True)
        return np.bitwise_or.reduceat(sent, self.starts, axis=0)


def _added(sent: Amounts, starts: NDArray[np.intp]) -> Amounts:
    """Return the sums of the rows from each start to the next; few rows each are added one by one."""
    count = len(sent) // len(starts)
    if count <= ADDED_MAX and np.array_equal(starts, np.arange(0, len(sent), count)):
        found = sent[::count].copy()
        for at in range(1, count):
            found += sent[at::count]
        return found
    return np.add.reduceat(sent, starts, axis=0)


def fidelity(topology: Topology, alive: Iterable[int]) -> float:
    """Return the share of the input that contributes to the result (Eq. 4)."""
    return float(fidelities(topology, topology.mask(alive)[None, :])[0])


@dataclass(frozen=True, slots=True)
class TaskMeasure:
    """A weighted sum of the values of tasks (`task_values`).

    Attributes:
        basis: returns the topology in which tasks are valued, and the weight of each task.
    """

    basis: Callable[[Topology], tuple[Topology, Amounts]]

    def __call__(self, topology: Topology, alive: Alive) -> Amounts:
        """Return the value of every row of `alive`, shape (sets, tasks).

        Cost: substreams times sets.
        """
        valued, weights = self.basis(topology)
        return _by_rows(valued, alive, weights)

    def raised(self, topology: Topology, held: Alive, added: Sets, count: int) -> Alive:
        """Return for each of `count` sets whether its tasks raise the value beside those that are held.

        Values are monotone: a task that is alive and gets something of each input gives more exactly if it is
        added itself, or gets more of any input.

        Cost: substreams times sets, of eight sets in each byte.
        """
        valued, weights = self.basis(topology)
        rising = added & np.where(held, 0, 255).astype(np.uint8)[:, None]
        alive = rising | np.where(held, 255, 0).astype(np.uint8)[:, None]
        for operator in valued.operators:
            for each in weighted_inputs(valued, operator):
                at = operator.first + each.receivers
                alive[at] &= each.any(alive)
                rising[at] |= each.any(rising)
            tasks = slice(operator.first, operator.stop)
            rising[tasks] &= alive[tasks]
        found = np.bitwise_or.reduce(rising[weights > 0], axis=0)
        return np.unpackbits(found, count=count).astype(np.bool_)


def packed(sets: Alive) -> Sets:
    """Return sets, one per row, with tasks first."""
    return np.packbits(np.ascontiguousarray(sets.T), axis=1)


def _delivered(topology: Topology) -> tuple[Topology, Amounts]:
    return topology, topology.sink_weights


@lru_cache(maxsize=64)
def _processed(topology: Topology) -> tuple[Topology, Amounts]:
    independent = _independent(topology)
    into = np.zeros(len(topology))
    for operator in topology.operators:
        if not operator.inputs:
            into[operator.first : operator.stop] = topology.rates[operator.first : operator.stop]
        for stream in operator.inputs:
            np.add.at(into, stream.receivers, stream.rates)
    return independent, shares(into)


fidelities = TaskMeasure(_delivered)
"""The fidelity of every row of sets of alive tasks."""

internal_completenesses = TaskMeasure(_processed)
"""The tuples that all tasks process, over those without a failure. Joins count as unions.

Paper: IC of PPA VI-B.
"""


def internal_completeness(topology: Topology, alive: Iterable[int]) -> float:
    return float(internal_completenesses(topology, topology.mask(alive)[None, :])[0])


def task_values(topology: Topology, alive: Alive) -> Amounts:
    """Return 1 - IL_out of every task (Eq. 2 and 3) for every row of `alive`, shape (tasks, sets).

    Tasks come first, because the tasks of an operator are then contiguous.
    """
    values = alive.T.astype(np.float64, order="C")
    for operator in topology.operators:
        for each in weighted_inputs(topology, operator):
            if len(each.receivers) == operator.stop - operator.first:
                values[operator.first : operator.stop] *= each.arriving(values)
            else:
                values[operator.first + each.receivers] *= each.arriving(values)
    return values


def weighted_inputs(topology: Topology, operator: Operator) -> tuple[WeightedInputs, ...]:
    """Return the inputs whose shares multiply: each stream of a join, and all streams of others as one."""
    return _weighted(topology)[operator.first]


@lru_cache(maxsize=64)
def _weighted(topology: Topology) -> dict[int, tuple[WeightedInputs, ...]]:
    found = {}
    for operator in topology.operators:
        streams = operator.inputs
        groups = [[each] for each in streams] if operator.correlated else [streams] if streams else []
        found[operator.first] = tuple(
            _weigh(
                operator,
                np.concatenate([each.receivers for each in group]),
                np.concatenate([each.senders for each in group]),
                np.concatenate([each.rates for each in group]),
            )
            for group in groups
        )
    return found


def _weigh(
    operator: Operator, receivers: NDArray[np.intp], senders: NDArray[np.intp], rates: Amounts
) -> WeightedInputs:
    order = np.lexsort((senders, receivers))
    receivers, senders, rates = receivers[order] - operator.first, senders[order], rates[order]
    distinct, starts, counts = np.unique(receivers, return_index=True, return_counts=True)
    totals = np.add.reduceat(rates, starts)
    silent = np.repeat(totals, counts) <= 0  # by heads, where no substream has a rate
    weights = np.where(
        silent, 1 / np.repeat(counts, counts), rates / np.where(silent, 1, np.repeat(totals, counts))
    )
    uniform = False
    if (counts == counts[0]).all():
        rows, shared = senders.reshape(-1, counts[0]), weights.reshape(-1, counts[0])
        uniform = bool((rows == rows[0]).all() and np.allclose(shared, shared[0], rtol=1e-12, atol=0))
    counted = None if (weights > 0).all() else np.where(weights > 0, 255, 0).astype(np.uint8)
    sent = _selected(senders), _selected(senders[: counts[0]])
    return WeightedInputs(distinct, senders, weights, starts, uniform, *sent, counted)


def _selected(tasks: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    follow = bool((np.diff(tasks) == 1).all())
    return slice(int(tasks[0]), int(tasks[-1]) + 1) if follow else tasks


def _independent(topology: Topology) -> Topology:
    from dataclasses import replace

    operators = tuple(replace(each, correlated=False) for each in topology.operators)
    return replace(topology, operators=operators)


def _by_rows(topology: Topology, alive: Alive, weights: Amounts) -> Amounts:
    """Return the weighted sum of the tasks' values for every row of `alive`."""
    width = max([len(topology), *(len(stream.senders) for _, stream in topology.pairs)])
    step, at = max(CELLS_MAX // width, 1), np.flatnonzero(weights)
    parts = [
        weights[at] @ task_values(topology, alive[first : first + step])[at]
        for first in range(0, len(alive), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)

"""Minimal complete trees of a topology, with their weights (PPA Def. 1).

Owns their enumeration. An MC-tree has one sink task, one substream into each of its tasks with independent
inputs, and one substream of each stream into each task with correlated inputs. The fidelity of a set of tasks
is the weight of the MC-trees inside it.

Deviation: where two branches of a tree meet in one task, each branch chooses a substream of that task on its
own. Such a set is not minimal if they choose differently, but Eq. 2 gives it weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from elfmesh.control.planning.fidelity import Alive, weighted_inputs
from elfmesh.control.planning.topology import Topology
from elfmesh.errors import RuntimeFailure

TREES_MAX = 50_000
Tree = int
"""A set of tasks: bit i is task i."""


def mc_trees(topology: Topology, most: int = TREES_MAX) -> dict[Tree, float]:
    """Return the MC-trees, as sets of tasks, with weights that sum to 1.

    Raises:
        RuntimeFailure: there are more than `most`.
    """
    below: list[dict[Tree, float]] = []
    for operator in topology.operators:
        inputs = weighted_inputs(topology, operator)
        for task in operator.tasks:
            trees = {1 << task: 1.0}
            for each in inputs:
                at = (each.receivers == task - operator.first).nonzero()[0]
                if not len(at):
                    continue
                start = int(each.starts[at[0]])
                stop = int(each.starts[at[0] + 1]) if at[0] + 1 < len(each.starts) else len(each.senders)
                chosen: dict[Tree, float] = {}
                for sender, weight in zip(
                    each.senders[start:stop].tolist(), each.weights[start:stop].tolist(), strict=True
                ):
                    _add(chosen, below[sender], weight, most)
                trees = _product(trees, chosen, most)
            below.append(trees)
    found: dict[Tree, float] = {}
    for sink in topology.sinks:
        for task in topology.operators[sink].tasks:
            _add(found, below[task], float(topology.sink_weights[task]), most)
    return found


def tasks_of(tree: Tree) -> list[int]:
    """Return the tasks of a set, ascending."""
    found = []
    while tree:
        low = tree & -tree
        found.append(low.bit_length() - 1)
        tree ^= low
    return found


def tree_of(tasks: Iterable[int]) -> Tree:
    return sum(1 << task for task in set(tasks))


def alive_in(trees: Sequence[Tree], count: int) -> Alive:
    """Return sets of tasks as rows of a matrix with `count` columns."""
    size = (count + 7) // 8
    packed = np.frombuffer(b"".join(tree.to_bytes(size, "little") for tree in trees), dtype=np.uint8)
    bits = np.unpackbits(packed.reshape(len(trees), size), axis=1, bitorder="little", count=count)
    return bits.astype(np.bool_)


def _product(left: dict[Tree, float], right: dict[Tree, float], most: int) -> dict[Tree, float]:
    found: dict[Tree, float] = {}
    for one, weight in left.items():
        for other, part in right.items():
            tree = one | other
            found[tree] = found.get(tree, 0.0) + weight * part
        if len(found) > most:
            raise _too_many(most)
    return found


def _add(found: dict[Tree, float], more: dict[Tree, float], factor: float, most: int) -> None:
    for tree, weight in more.items():
        found[tree] = found.get(tree, 0.0) + factor * weight
    if len(found) > most:
        raise _too_many(most)


def _too_many(most: int) -> RuntimeFailure:
    return RuntimeFailure(f"the topology has more than {most:,} MC-trees", hint="Use --algorithm auto.")

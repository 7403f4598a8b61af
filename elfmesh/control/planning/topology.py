"""Topologies: operators with parallel tasks, and the substreams between tasks.

Owns the shape of a topology and what follows from it: the kind of a partitioning, and parts of a topology.
`topology_text.py` reads topologies and checks them. Paper: PPA II-A.

Deviation: where the sender or the receiver has one task, the partitioning is merge or split and not full,
because the paper's bounds (M1 < N1, M2 < N2) would make every chain to one task a full one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

ONE_TO_ONE, SPLIT, MERGE, FULL, OTHER = "one-to-one", "split", "merge", "full", "other"
KINDS = (ONE_TO_ONE, SPLIT, MERGE, FULL)
Pair = tuple[int, int]
"""Two operators, sender and receiver."""


@dataclass(frozen=True, eq=False, slots=True)
class InputStream:
    """All substreams from one operator to another.

    Attributes:
        sender: operator that sends.
        kind: the partitioning.
        senders, receivers, rates: by substream, ordered by receiver and then sender.
    """

    sender: int
    kind: str
    senders: NDArray[np.intp]
    receivers: NDArray[np.intp]
    rates: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """A step of the computation, and the range of its tasks.

    Attributes:
        correlated: whether its output needs a match in all inputs, as a join does.
    """

    name: str
    first: int
    stop: int
    inputs: tuple[InputStream, ...] = ()
    correlated: bool = False

    @property
    def tasks(self) -> range:
        return range(self.first, self.stop)


@dataclass(frozen=True, eq=False)
class Topology:
    """A DAG of tasks, named by their position; senders stand before receivers.

    Attributes:
        operators: in topological order; operators without inputs are sources.
        names, rates, costs, domains: by task.
        sinks: operators whose output is the result.
    """

    operators: tuple[Operator, ...]
    names: tuple[str, ...]
    rates: NDArray[np.float64]
    costs: NDArray[np.float64]
    domains: tuple[tuple[str, ...], ...]
    sinks: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def uniform_costs(self) -> bool:
        return bool((self.costs == 1).all())

    @cached_property
    def pairs(self) -> tuple[tuple[Pair, InputStream], ...]:
        """All streams between operators, with sender and receiver."""
        return tuple(((each.sender, at), each) for at, to in enumerate(self.operators) for each in to.inputs)

    @cached_property
    def sink_weights(self) -> NDArray[np.float64]:
        """Share of every task in the result; 0 outside the sinks (Eq. 4)."""
        weights = np.zeros(len(self))
        at = [task for sink in self.sinks for task in self.operators[sink].tasks]
        weights[at] = shares(self.rates[at])
        return weights

    @cached_property
    def neighbours(self) -> tuple[frozenset[int], ...]:
        """The tasks at the other ends of the substreams of every task."""
        found: list[set[int]] = [set() for _ in self.names]
        for _, stream in self.pairs:
            for sender, receiver in zip(stream.senders.tolist(), stream.receivers.tolist(), strict=True):
                found[sender].add(receiver)
                found[receiver].add(sender)
        return tuple(frozenset(each) for each in found)

    def named(self, tasks: Iterable[int]) -> tuple[str, ...]:
        return tuple(sorted(self.names[task] for task in tasks))

    def mask(self, tasks: Iterable[int]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[list(tasks)] = True
        return mask

    def part(self, operators: Sequence[int], cut: Collection[Pair] = ()) -> tuple[Topology, tuple[int, ...]]:
        """Return some operators as a topology of their own, and the task of this one for each of its tasks.

        Args:
            operators: operators of the part, in ascending order.
            cut: streams that the part does not contain.
        """
        kept = [task for at in operators for task in self.operators[at].tasks]
        new = {task: at for at, task in enumerate(kept)}
        moved: list[Operator] = []
        feeding: set[int] = set()
        for at in operators:
            operator, inputs = self.operators[at], []
            for each in operator.inputs:
                if each.sender not in operators or (each.sender, at) in cut:
                    continue
                feeding.add(each.sender)
                inputs.append(
                    replace(
                        each,
                        sender=operators.index(each.sender),
                        senders=np.array([new[task] for task in each.senders.tolist()], dtype=np.intp),
                        receivers=np.array([new[task] for task in each.receivers.tolist()], dtype=np.intp),
                    )
                )
            first = new[operator.first]
            size = operator.stop - operator.first
            moved.append(replace(operator, first=first, stop=first + size, inputs=tuple(inputs)))
        sinks = tuple(at for at, each in enumerate(operators) if each not in feeding)
        whole = Topology(
            tuple(moved),
            tuple(self.names[task] for task in kept),
            self.rates[kept],
            self.costs[kept],
            tuple(self.domains[task] for task in kept),
            sinks,
        )
        return whole, tuple(kept)


def shares(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rates as shares of their sum; even shares if all of them are 0."""
    total = rates.sum()
    return rates / total if total > 0 else np.full(len(rates), 1 / max(len(rates), 1))


def kind_of(senders: Sequence[int], receivers: Sequence[int], from_count: int, to_count: int) -> str:
    """Return the partitioning that some substreams have.

    Args:
        senders: by substream; no two substreams have the same sender and receiver.
        receivers: by substream.
        from_count: tasks of the sending operator.
        to_count: tasks of the receiving operator.
    """
    sent, received = Counter(senders), Counter(receivers)
    one_sender = len(receivers) == len(received) == to_count
    one_receiver = len(senders) == len(sent) == from_count
    if one_sender and one_receiver:
        return ONE_TO_ONE
    if one_sender and len(sent) == from_count and min(sent.values()) > 1:
        return SPLIT
    if one_receiver and len(received) == to_count and min(received.values()) > 1:
        return MERGE
    return FULL if len(senders) == from_count * to_count else OTHER


def default_substreams(kind: str, from_count: int, to_count: int) -> list[tuple[int, int]] | None:
    """Return the substreams of a partitioning, contiguous; None if the numbers of tasks do not permit it."""
    if kind == FULL:
        return [(s, r) for r in range(to_count) for s in range(from_count)]
    if kind == ONE_TO_ONE:
        return [(at, at) for at in range(to_count)] if from_count == to_count else None
    if kind == SPLIT:
        fits = to_count >= 2 * from_count
        return [(r * from_count // to_count, r) for r in range(to_count)] if fits else None
    fits = from_count >= 2 * to_count
    return [(s, s * to_count // from_count) for s in range(from_count)] if fits else None


def components(members: Sequence[int], links: Iterable[Pair]) -> list[tuple[int, ...]]:
    """Return the connected components of some operators, each ascending, ordered by their first member."""
    root = {each: each for each in members}

    def find(at: int) -> int:
        while root[at] != at:
            at = root[at]
        return at

    for one, other in links:
        low, high = sorted((find(one), find(other)))
        root[high] = low
    groups: dict[int, list[int]] = {}
    for each in sorted(members):
        groups.setdefault(find(each), []).append(each)
    return [tuple(groups[each]) for each in sorted(groups)]

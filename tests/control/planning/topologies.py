"""Topologies for tests and benchmarks: those of the paper's figures, and random ones as in its Fig. 14."""

from __future__ import annotations

import random
from typing import Any

from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of

Values = dict[str, Any]


def operator(name: str, tasks: int | list[float], *inputs: tuple[str, str], **more: Any) -> Values:
    """An operator with tasks NAME.0, NAME.1, ...; `tasks` is their number, or their rates."""
    rates = [None] * tasks if isinstance(tasks, int) else tasks
    return {
        "name": name,
        "tasks": [
            {"name": f"{name}.{at:02}", **({} if rate is None else {"rate": rate})}
            for at, rate in enumerate(rates)
        ],
        "inputs": [{"from": sender, "partitioning": kind} for sender, kind in inputs],
        **more,
    }


def figure_1(*, join: bool) -> Topology:
    """Fig. 1: the counts of MC-trees in the text fit these tasks and edges."""
    return topology_of(
        {
            "operators": [
                operator("O1", 4),
                operator("O2", 2),
                operator("O3", 4, ("O1", "one-to-one"), ("O2", "split"), correlated=join),
                operator("O4", 2, ("O3", "full")),
            ]
        }
    )


def figure_2(*, join: bool) -> Topology:
    """Fig. 2: rates with which the loss of t22 gives the paper's 2/5 and 1/4."""
    return topology_of(
        {
            "operators": [
                operator("O1", [2.0, 1.0]),
                operator("O2", [3.0, 2.0]),
                operator("O3", 1, ("O1", "merge"), ("O2", "merge"), correlated=join),
            ]
        }
    )


def figure_4() -> Topology:
    """Fig. 4: {O1, O2, O3} is structured, {O4, O5, O6} behind it is full."""
    return topology_of(
        {
            "operators": [
                operator("O1", 4),
                operator("O2", 4, ("O1", "one-to-one")),
                operator("O3", 2, ("O2", "merge")),
                operator("O4", 3, ("O3", "full")),
                operator("O5", 3, ("O4", "full")),
                operator("O6", 2, ("O5", "full")),
            ]
        }
    )


def random_topology(
    dice: random.Random,
    operators: tuple[int, int] = (2, 4),
    tasks: tuple[int, int] = (1, 3),
    shape: str = "mixed",
    joins: float = 0.5,
    zipf: float | None = None,
    **more: Any,
) -> Topology:
    """A random topology; its last operator is the sink."""
    return topology_of(random_values(dice, operators, tasks, shape, joins, zipf, **more))


def random_values(
    dice: random.Random,
    operators: tuple[int, int] = (2, 4),
    tasks: tuple[int, int] = (1, 3),
    shape: str = "mixed",
    joins: float = 0.5,
    zipf: float | None = None,
    costs: tuple[float, ...] = (),
    shared: bool = True,
) -> Values:
    """The JSON of a random topology.

    Args:
        dice: decides everything.
        operators: least and greatest number of operators.
        tasks: least and greatest number of tasks of an operator.
        shape: `structured` (no full partitioning but to the sink), `full`, or `mixed`.
        joins: share of the operators with several inputs that are joins.
        zipf: exponent of the rates of a source's tasks; None: uniformly random rates.
        costs: possible costs of a task; none: 1.
        shared: whether an operator may feed several others.
    """
    count = dice.randint(*operators)
    feeds: dict[int, list[int]] = {}
    for at in range(count - 1):
        more = 2 if shared and dice.random() < 0.25 else 1
        for to in dice.sample(range(at + 1, count), min(more, count - at - 1)):
            feeds.setdefault(to, []).append(at)
    sizes: list[int] = []
    for at in range(count):
        senders = [sizes[sender] for sender in feeds.get(at, [])] if shape == "structured" else []
        fitting = [
            size
            for size in range(tasks[0], tasks[1] + 1)
            if all(size == each or size >= 2 * each or each >= 2 * size for each in senders)
        ]
        sizes.append(dice.choice(fitting or [1]))
    values = []
    for at in range(count):
        inputs = []
        for sender in feeds.get(at, []):
            kind = _kind(dice, sizes[sender], sizes[at], shape, last=at == count - 1)
            inputs.append((f"O{sender}", kind))
        rates: int | list[float] = sizes[at]
        if not inputs:
            rates = [float(dice.randint(1, 9)) for _ in range(sizes[at])]
            if zipf is not None:
                rates = [100.0 / (rank + 1) ** zipf for rank in range(sizes[at])]
                dice.shuffle(rates)
        values.append(
            operator(
                f"O{at}", rates, *inputs, correlated=len(inputs) > 1 and dice.random() < joins,
                selectivity=dice.choice((1, 0.5)),
            )
        )  # fmt: skip
        if costs:
            for task in values[-1]["tasks"]:
                task["cost"] = dice.choice(costs)
    return {"operators": values}


def _kind(dice: random.Random, senders: int, receivers: int, shape: str, *, last: bool) -> str:
    fits = ["one-to-one"] if senders == receivers else []
    fits += ["split"] if receivers >= 2 * senders else []
    fits += ["merge"] if senders >= 2 * receivers else []
    if shape == "full" or not fits:
        return "full"
    return dice.choice(fits if shape == "structured" else [*fits, "full"])

"""Parts and units of the paper's Fig. 3 and Fig. 4."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.planning.parts import Part, split, units
from elfmesh.control.planning.topology import FULL, Topology
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import figure_4, operator, random_topology


def names(topology: Topology, operators: tuple[int, ...]) -> set[str]:
    return {topology.operators[at].name for at in operators}


def test_figure_4_has_a_structured_and_a_full_part() -> None:
    topology = figure_4()
    parts = split(topology)
    assert [(names(topology, each.operators), each.full) for each in parts] == [
        ({"O1", "O2", "O3"}, False),
        ({"O4", "O5", "O6"}, True),
    ]


MERGED_AND_SPLIT = [
    operator("O1", 4),
    operator("O2", 2, ("O1", "merge")),
    operator("O3", 4, ("O2", "split")),
    operator("O4", 4, ("O3", "one-to-one")),
]
JOINED = [
    operator("O1", 4),
    operator("O2", 2),
    operator("O3", 2, ("O1", "merge"), ("O2", "one-to-one"), correlated=True),
    operator("O4", 2, ("O3", "one-to-one")),
]


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (MERGED_AND_SPLIT, [{"O1"}, {"O2", "O3", "O4"}]),
        (JOINED, [{"O1"}, {"O2", "O3", "O4"}]),
    ],
    ids=["merged input and split output", "join"],
)
def test_the_units_of_figure_3(operators: list[dict[str, Any]], expected: list[set[str]]) -> None:
    topology = topology_of({"operators": operators})
    (part,) = split(topology)
    assert [names(topology, unit) for unit in units(topology, part)] == expected


def by_searches(topology: Topology) -> int:
    """The number of parts of the paper's searches: upstream from the sinks, while the partitioning fits."""
    upstream = {at: [(pair[0], stream.kind) for pair, stream in topology.pairs if pair[1] == at]
                for at in range(len(topology.operators))}  # fmt: skip
    taken: set[int] = set()
    starts, parts = list(topology.sinks), 0
    while starts:
        start = starts.pop(0)
        if start in taken:
            continue
        parts += 1
        taken.add(start)
        full = any(kind == FULL for _, kind in upstream[start])
        queue = [start]
        while queue:
            for sender, kind in upstream[queue.pop()]:
                if (kind == FULL) == full and sender not in taken:
                    taken.add(sender)
                    queue.append(sender)
                elif sender not in taken:
                    starts.append(sender)
    return parts


def test_parts_are_compared_with_those_of_the_papers_searches() -> None:
    """More parts occur for one reason: an operator with full and other edges is in one part only here."""
    more = 0
    for seed in range(500):
        topology = random_topology(random.Random(seed), (3, 8), (1, 6))
        parts = split(topology)
        assert sorted(at for part in parts for at in part.operators) == list(range(len(topology.operators)))
        for part in parts:
            check_kind(topology, part)
        if len(parts) > by_searches(topology):
            more += 1
            assert any(
                len({stream.kind == FULL for pair, stream in topology.pairs if at in pair}) == 2
                for at in range(len(topology.operators))
            )
    assert more < 400


def check_kind(topology: Topology, part: Part) -> None:
    inside = [
        stream.kind == FULL
        for pair, stream in topology.pairs
        if pair[0] in part.operators and pair[1] in part.operators
    ]
    assert all(inside) if part.full else not all(inside)

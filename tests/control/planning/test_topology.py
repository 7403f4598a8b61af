"""Kinds of partitionings, and parts of a topology."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.topology import FULL, MERGE, ONE_TO_ONE, OTHER, SPLIT, components, kind_of
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import figure_4, operator


@pytest.mark.parametrize(
    ("pairs", "counts", "kind"),
    [
        ([(0, 0), (1, 1)], (2, 2), ONE_TO_ONE),
        ([(0, 1), (1, 0)], (2, 2), ONE_TO_ONE),
        ([(0, 0)], (1, 1), ONE_TO_ONE),
        ([(0, 0), (1, 0)], (2, 1), MERGE),
        ([(0, 0), (0, 1)], (1, 2), SPLIT),
        ([(0, 0), (1, 0), (2, 1), (3, 1)], (4, 2), MERGE),
        ([(0, 0), (1, 0), (2, 1)], (3, 2), OTHER),
        ([(0, 0), (0, 1), (1, 0), (1, 1)], (2, 2), FULL),
        ([(0, 0), (0, 1), (1, 1)], (2, 2), OTHER),
    ],
)
def test_the_kind_of_a_partitioning(pairs: list[tuple[int, int]], counts: tuple[int, int], kind: str) -> None:
    senders, receivers = zip(*pairs, strict=True)
    assert kind_of(senders, receivers, *counts) == kind


@pytest.mark.parametrize(("kind", "senders", "receivers"), [("full", 3, 1), ("full", 1, 3)])
def test_one_task_on_a_side_is_no_full_partitioning(kind: str, senders: int, receivers: int) -> None:
    topology = topology_of({"operators": [operator("A", senders), operator("B", receivers, ("A", kind))]})
    ((_, stream),) = topology.pairs
    assert stream.kind == (MERGE if receivers == 1 else SPLIT)


def test_a_part_is_a_topology_of_its_own() -> None:
    topology = figure_4()
    part, back = topology.part((1, 2, 3), cut={(1, 2)})
    assert part.names == tuple(topology.names[task] for task in back)
    assert [each.name for each in part.operators] == ["O2", "O3", "O4"]
    assert [len(each.inputs) for each in part.operators] == [0, 0, 1]
    assert part.sinks == (0, 2), "nothing inside reads O2 any more"


def test_connected_components_are_ordered() -> None:
    assert components([4, 1, 3, 2, 9], [(1, 4), (3, 9)]) == [(1, 4), (2,), (3, 9)]

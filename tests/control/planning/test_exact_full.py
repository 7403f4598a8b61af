"""Where the optimum of full topologies applies; `test_exact_forest.py` compares it with brute force."""

from __future__ import annotations

import pytest

from elfmesh.control.planning.combining import scaled, trace
from elfmesh.control.planning.exact_full import exact_full, is_full
from elfmesh.control.planning.topology import Topology
from elfmesh.control.planning.topology_build import topology_of
from tests.control.planning.topologies import figure_1, figure_4, operator


def union(*, skewed: bool = False) -> Topology:
    values = {
        "operators": [
            operator("A", [4.0, 1.0]),
            operator("B", [3.0, 3.0]),
            {**operator("C", 2), "inputs": [{"from": "A"}, {"from": "B", "partitioning": "full"}]},
        ],
        "edges": [
            ["A.00", "C.00", 2.0],
            ["A.00", "C.01", 1.0 if skewed else 2.0],
            ["A.01", "C.00", 0.5],
            ["A.01", "C.01", 0.5],
        ],
    }
    return topology_of(values)


def test_a_union_takes_the_heaviest_tasks_of_both_inputs() -> None:
    topology = union()
    assert is_full(topology)
    curve = exact_full(topology, scaled(topology, 4))
    assert topology.named(trace(curve, 4)) == ("A.00", "B.00", "C.00", "C.01")
    assert curve.values[4] == pytest.approx(7 / 11)


def test_all_receivers_must_take_the_same_shares() -> None:
    assert not is_full(union(skewed=True))
    assert not is_full(figure_1(join=False))
    assert not is_full(figure_4())

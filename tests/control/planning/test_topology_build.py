"""How operators fit together: order, substreams, rates and sinks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elfmesh.control.planning.topology_build import topology_of
from elfmesh.control.planning.topology_text import read_topology
from elfmesh.errors import DataError
from tests.control.planning.topologies import operator


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([operator("A", 2), operator("B", 3, ("A", "split"))], "2 tasks to 3 is no split"),
        ([operator("A", 3), operator("B", 2, ("A", "merge"))], "3 tasks to 2 is no merge"),
        ([operator("A", 3), operator("B", 2, ("A", "one-to-one"))], "3 tasks to 2 is no one-to-one"),
        ([operator("A", 2), operator("B", 2, ("A", "full"), ("A", "full"))], "a second input from 'A'"),
        (
            [
                operator("A", 1, ("C", "full")),
                operator("B", 1, ("A", "full")),
                operator("C", 1, ("B", "full")),
            ],
            "A, B, C form or await a cycle",
        ),
        ([{"name": "A", "tasks": [{"name": "t"}], "inputs": [{}]}], "'from' is missing"),
        ([operator("A", 1), {**operator("B", 1), "inputs": [{"from": "A"}]}], "there are no edges"),
        ([operator("A", 100_001)], "more than 100,000 tasks"),
        ([operator("A", 3_000), operator("B", 2_000, ("A", "full"))], "more than 4,000,000 substreams"),
        ([], "no operators"),
    ],
)
def test_operators_that_do_not_fit_together_are_refused(
    operators: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(DataError) as refused:
        read_topology(json.dumps({"operators": operators}), "q1.json")
    assert message in str(refused.value)


def test_a_receiver_without_a_substream_is_refused() -> None:
    values = {
        "operators": [operator("A", 1), {**operator("B", 2), "inputs": [{"from": "A"}]}],
        "edges": [["A.00", "B.00", 1]],
    }
    with pytest.raises(DataError, match=r"task 'B\.01' receives nothing"):
        read_topology(json.dumps(values), "q1.json")


def test_rates_follow_from_the_sources_and_selectivities() -> None:
    operators = [
        operator("C", 2, ("B", "full"), selectivity=0.5),
        operator("A", [6.0, 2.0]),
        operator("B", 2, ("A", "one-to-one")),
    ]
    topology = topology_of({"operators": operators})
    assert topology.names == ("A.00", "A.01", "B.00", "B.01", "C.00", "C.01"), "senders before receivers"
    assert topology.rates.tolist() == [6, 2, 6, 2, 2, 2]


def test_a_source_without_rates_counts_by_heads() -> None:
    assert topology_of({"operators": [operator("A", 3)]}).rates.tolist() == [1, 1, 1]


def test_several_sinks_are_weighted_by_rate() -> None:
    operators = [operator("A", [3.0]), operator("B", 1, ("A", "full")), operator("D", [1.0])]
    topology = topology_of({"operators": operators})
    weights = dict(zip(topology.names, topology.sink_weights.tolist(), strict=True))
    assert weights == {"A.00": 0, "B.00": 0.75, "D.00": 0.25}

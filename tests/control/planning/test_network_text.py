"""Networks in JSON: what is read, and where a fault is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elfmesh.control.planning.network_text import read_network
from elfmesh.errors import DataError

EXAMPLE = Path(__file__).parents[3] / "examples/networks/three-regions.json"
LINE: dict[str, Any] = {
    "servers": [{"name": "a"}, {"name": "b", "capacity": 2, "domain": "eu"}],
    "latency": [["a", "b", 0.5]],
    "stages": [{"name": "in", "at": ["a"]}, {"name": "out", "load": 0.1}],
    "flows": [{"from": "in", "to": "out", "rate": 3}],
    "weights": [["in", "a", "out", "b", 4]],
    "apart": 0.1,
}


def test_a_network_is_read_with_its_weights() -> None:
    network, weights = read_network(json.dumps(LINE), "line.json")
    assert (network.between("b", "a"), network.apart_s, network.busy) == (0.5, 0.1, 0.7)
    assert [each.capacity for each in network.servers] == [1.0, 2.0]
    assert weights == {(("in", "a"), ("out", "b")): 4.0}


def test_the_example_is_a_network() -> None:
    network, _ = read_network(EXAMPLE.read_text(), EXAMPLE.name)
    assert len(network.servers) == 6


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"servers": [{"name": "a"}, {"name": "a"}]}, "line.json: servers: two are called a"),
        ({"servers": [{"name": "a", "cores": 2}]}, "line.json: servers"),
        ({"latency": []}, "line.json: latency: there is none between a and b"),
        ({"latency": [["a", "c", 1]]}, "line.json: latency: there is no server c"),
        ({"latency": [["a", "b", -1]]}, "line.json: latency"),
        ({"stages": [{"name": "in", "at": ["z"]}]}, "line.json: stages: in: there is no server z"),
        ({"flows": [{"from": "in", "to": "x", "rate": 1}]}, "line.json: flows: there is no stage x"),
        ({"flows": [{"from": "out", "to": "in", "rate": 1}]}, "line.json: stages: in stands before out"),
    ],
)
def test_a_fault_is_named_with_its_place(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read_network(json.dumps(LINE | changes), "line.json")
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["", "[", "[1]", "null"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"line\.json"):
        read_network(text, "line.json")

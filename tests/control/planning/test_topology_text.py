"""Topologies in JSON: what is written is read, and a refusal names its place."""

from __future__ import annotations

import json

import numpy as np
import pytest

from elfmesh.control.planning.topology_text import read_topology, topology_values
from elfmesh.errors import DataError
from tests.control.planning.brute import small_topologies

EXAMPLE = """{
  "operators": [
    {"name": "O1", "tasks": [
      {"name": "t11", "rate": 120.0, "cost": 2, "domains": ["rack=r1"]},
      {"name": "t12", "rate": 80.0}]},
    {"name": "O3", "inputs": [{"from": "O1", "partitioning": "merge"}],
     "correlated": true, "selectivity": 0.5,
     "tasks": [{"name": "t31"}]}
  ],
  "edges": [["t11", "t31", 100.0], ["t12", "t31", 80.0]],
  "sink": "O3"
}"""


def test_a_topology_is_read() -> None:
    topology = read_topology(EXAMPLE, "q1.json")
    assert topology.names == ("t11", "t12", "t31")
    assert topology.rates.tolist() == [120, 80, 90]
    assert topology.costs.tolist() == [2, 1, 1]
    assert topology.domains[0] == ("rack=r1",)
    assert topology.sinks == (1,)


def test_what_is_written_is_read_again() -> None:
    for topology in small_topologies(20, costs=True):
        again = read_topology(json.dumps(topology_values(topology)), "again.json")
        assert again.names == topology.names
        assert again.sinks == topology.sinks
        assert np.array_equal(again.rates, topology.rates)
        assert np.array_equal(again.costs, topology.costs)
        assert len(again.pairs) == len(topology.pairs)
        for (pair, stream), (other, same) in zip(topology.pairs, again.pairs, strict=True):
            assert pair == other
            assert stream.kind == same.kind
            assert np.array_equal(stream.rates, same.rates)


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ('"rate": 80.0', '"rate": -80.0', "5: operators[0].tasks[1].rate", "rate is -80.0"),
        ('"cost": 2', '"cost": 0', "4: operators[0].tasks[0].cost", "it must be above 0"),
        ('"cost": 2', '"cost": true', "4: operators[0].tasks[0].cost", "a number is expected"),
        ('"rate": 80.0', '"rate": 1e300', "5: operators[0].tasks[1].rate", "too large"),
        ('"rate": 80.0', '"rate": NaN', "1", "NaN is no number of JSON"),
        ('"t12", "rate": 80.0', '"t12"', "5: operators[0].tasks[1]", "task 't12' has no rate"),
        ('"name": "t12"', '"name": "t11"', "5: operators[0].tasks[1].name", "a second task 't11'"),
        ('"name": "O3"', '"name": "O1"', "6: operators[1].name", "a second operator 'O1'"),
        ('"from": "O1"', '"from": "O2"', "6: operators[1].inputs[0].from", "no operator 'O2'"),
        ('"from": "O1"', '"from": "O3"', "6: operators[1].inputs", "O3 form or await a cycle"),
        ('"merge"', '"one-to-one"', "10: edges[0]", "the edges of 2 tasks to 1 are no one-to-one but merge"),
        ('"merge"', '"halves"', "6: operators[1].inputs[0].partitioning", "no partitioning 'halves'"),
        ('"t31", 100.0', '"t12", 100.0', "10: edges[0]", "'O1' has no input from 'O1'"),
        ('["t12", "t31", 80.0]', '["t11", "t31", 80.0]', "10: edges[1]", "a second edge"),
        ('["t12", "t31", 80.0]', '["t12", "t31"]', "10: edges[1]", "an edge is"),
        ('["t12", "t31", 80.0]', '["t12", "t99", 80.0]', "10: edges[1][1]", "no task 't99'"),
        ('["t12", "t31", 80.0]', '["t12", "t31", -1]', "10: edges[1][2]", "rate is -1"),
        ('"sink": "O3"', '"sink": "O1"', "6: operators[1]", "the output of 'O3' reaches no sink"),
        ('"sink": "O3"', '"sink": "O9"', "11: sink", "no operator 'O9'"),
        ('"sink": "O3"', '"sink": []', "11: sink", "no sink"),
        ('"sink": "O3"', '"skin": "O3"', "11: skin", "no key 'skin'"),
        ('"rack=r1"', '"r1"', "4: operators[0].tasks[0].domains[0]", "a domain is label=value"),
        ('"tasks": [{"name": "t31"}]', '"tasks": []', "8: operators[1].tasks", "no tasks"),
        ('"tasks": [{"name": "t31"}]', '"tasks": [7]', "8: operators[1].tasks[0]", "an object is expected"),
        ('"correlated": true, ', '"correlated": true, "correlated": true, ', "1", "occurs twice"),
        ('"correlated": true, ', '"correlated": 1, ', "7: operators[1].correlated", "true or false"),
        ('"sink": "O3"\n}', '"sink": "O3"\n', "12", "not JSON"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_line_and_the_path(old: str, new: str, place: str, message: str) -> None:
    assert EXAMPLE.count(old) == 1
    with pytest.raises(DataError) as refused:
        read_topology(EXAMPLE.replace(old, new), "q1.json")
    assert refused.value.where == f"q1.json:{place}"
    assert message in str(refused.value)
    assert refused.value.exit_code == 65


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested deeper than 16"),
        ("[]", "an object is expected"),
        ("{}", "'operators' is missing"),
        ("", "not JSON"),
        ('{"operators": ' + "9" * 5_000 + "}", "a number that is too long"),
        ('{"operators": "x"}', "a list is expected"),
        ("]", "not JSON"),
        ('{"a": 1, "a": 2}]', "'a' occurs twice"),  # what follows is read no more
        ('{"a": NaN, b}', "NaN is no number"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_topology(text, "q1.json")

"""Structure of dataflows: what is refused, and the order of an analysis."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.coordination.graph import Component, DataStream, Graph, Place
from elfmesh.errors import DataError
from tests.control.coordination.graphs import path, random_graph, ring

A = Component("a", (path("in", "out", "CR"),))


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (DataStream("s", ("b", "out"), None), "unknown component b"),
        (DataStream("s", ("a", "in"), None), "component a has no output in"),
        (DataStream("s", None, ("a", "out")), "component a has no input out"),
    ],
)
def test_a_stream_begins_and_ends_somewhere(stream: DataStream, message: str) -> None:
    with pytest.raises(DataError, match=f"stream s: {message}"):
        Graph((A,), (stream,))


def test_names_of_components_are_unique() -> None:
    with pytest.raises(DataError, match="component a occurs twice"):
        Graph((A, A), ())


def test_interfaces_follow_those_on_which_they_depend() -> None:
    for seed in range(100):
        graph = random_graph(random.Random(seed))
        order = graph.order()
        at = {node: number for number, members in enumerate(order) for node in members}
        for node, number in at.items():
            assert all(at[each] <= number for each in graph.sources_of(node))
        assert all(len(members) == 1 for members in order), "it has no cycle"


def test_a_ring_is_one_set_and_a_delay_cuts_it() -> None:
    assert [len(each) for each in ring(5).order()] == [10]
    assert [len(each) for each in ring(5, delayed=True).order()] == [1] * 10


def test_a_state_connects_its_writers_with_its_readers() -> None:
    component = Component("a", (path("w", "state", "CW"), path("r", "out", "OR"), path("r", "early", "CR")))
    graph = Graph((component,), ())
    assert ("in", "a", "w") in graph.sources_of(("out", "a", "out"))
    assert ("in", "a", "w") not in graph.sources_of(("out", "a", "early"))
    assert ("in", "a", "w") not in graph.sources_of(("out", "a", "out"), state=False)


def test_places_are_written_as_compilers_write_them() -> None:
    assert [str(each) for each in (Place("f"), Place("f", 2), Place("f", 2, 3))] == ["f", "f:2", "f:2:3"]

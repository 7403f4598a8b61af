"""Orders, duplicates, conditions, and one test for each of our rules."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.graph import Component, DataStream, Determines, Graph, SealedOn
from elfmesh.control.coordination.labels import Severity
from elfmesh.control.coordination.rules import SOUND
from tests.control.coordination.graphs import chain, path, sealed

# -- orders, duplicates, conditions


@pytest.mark.parametrize(("order", "label"), [("", "Diverge"), ("M1", "Async"), ("M2", "Run")])
def test_an_order_of_all_inputs(order: str, label: str) -> None:
    """Paper, III, Figure 5: M1 rules out every anomaly, M2 leaves Run."""
    graph = chain(path("in", "out", "OW"), source=DataStream("s", None, None, order=order), rep=True)
    assert str(analyse(graph).label("out")) == label


def test_an_order_of_one_input_of_two_is_none() -> None:
    component = Component("c", (path("w", "out", "CW"), path("r", "out", "OR", ["k"])))

    def graph(order: str) -> Graph:
        return Graph(
            (component,),
            (
                DataStream("w", None, ("c", "w"), order="M1"),
                DataStream("r", None, ("c", "r"), order=order),
                DataStream("out", ("c", "out"), None),
            ),
        )

    assert analyse(graph("")).label("out") is Severity.RUN
    assert analyse(graph("M1")).label("out") is Severity.ASYNC


@pytest.mark.parametrize(("idempotent", "label"), [(False, "Diverge"), (True, "Async")])
def test_a_record_that_arrives_twice_changes_a_state(idempotent: bool, label: str) -> None:
    graph = chain(
        path("in", "out", "CW", idempotent=idempotent),
        source=DataStream("s", None, None, once=False),
        rep=True,
    )
    assert str(analyse(graph).label("out")) == label


def test_a_watermark_ends_windows_of_its_time_only() -> None:
    def label(gate: str) -> Severity:
        source = DataStream("s", None, None, sealed("ts", ordered=True))
        return analyse(chain(path("in", "out", "OW", [gate, "id"]), source=source)).label("out")

    assert label("window(ts)") is Severity.ASYNC
    assert label("window(sent)") is Severity.RUN
    assert label("place") is Severity.RUN


def test_a_seal_that_may_break_gives_a_second_case() -> None:
    seal = SealedOn(frozenset({"k"}), False, ("late_dropped = 0",), may_break=True)
    found = analyse(chain(path("in", "out", "OW", ["k"]), source=DataStream("s", None, None, (seal,))))
    assert found.shown("out") == "Async | Run"
    assert found.outputs["out"].conditions == {"late_dropped = 0"}


# -- each rule


def state(*, kind: str = "CW", beside: str = "") -> Graph:
    """A replicated state that clicks write, a read of it, and a path apart from the state."""
    paths = [path("click", "state", kind), path("request", "out", "OR", ["k"])]
    streams = [
        DataStream("click", None, ("c", "click")),
        DataStream("request", None, ("c", "request")),
        DataStream("out", ("c", "out"), None),
    ]
    if beside:
        paths.append(path("beside", "out", "CR"))
        streams.append(DataStream("beside", None, ("c", "beside"), sealed(beside)))
    return Graph((Component("c", tuple(paths), True),), tuple(streams))


def fan_in() -> Graph:
    component = Component("c", (path("in", "out", "OW", ["k"]),))
    return Graph(
        (component,),
        (
            DataStream("one", None, ("c", "in"), sealed("k")),
            DataStream("two", None, ("c", "in")),
            DataStream("out", ("c", "out"), None),
        ),
    )


@pytest.mark.parametrize(
    ("rule", "graph", "with_rule", "without"),
    [
        ("S1", state(beside="k"), "Inst", "Async"),
        (
            "S2",
            chain(path("in", "out", "OR", ["k"]), source=DataStream("s", None, None, sealed("j"))),
            "Run",
            "Async",
        ),
        (
            "S3",
            chain(
                path("in", "m", "CR", lineage={"id": "id"}),
                path("m", "out", "OW", ["id"]),
                source=DataStream("s", None, None, sealed("campaign")),
                dependencies=[Determines(frozenset({"id"}), frozenset({"campaign"}))],
            ),
            "Run",
            "Async",
        ),
        (
            "S8",
            chain(path("in", "out", "CW"), source=DataStream("s", None, None, once=False)),
            "Run",
            "Async",
        ),
        ("S11", state(kind="OW"), "Diverge", "Inst"),
        (
            "S5",
            chain(
                path("in", "out", "OW", ["id"]),
                source=DataStream("s", None, None, sealed("campaign")),
                dependencies=[Determines(frozenset({"id"}), frozenset({"campaign"}))],
            ),
            "Async",
            "Run",
        ),
        (
            "S6",
            chain(
                path("in", "out", "OW", ["window(ts)"]),
                source=DataStream("s", None, None, sealed("ts", ordered=True)),
            ),
            "Async",
            "Run",
        ),
        (
            "S9",
            chain(path("in", "out", "OW"), source=DataStream("s", None, None, order="M1")),
            "Async",
            "Run",
        ),
        (
            "S9",
            chain(path("in", "out", "OW"), source=DataStream("s", None, None, order="M2"), rep=True),
            "Run",
            "Diverge",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_a_rule_is_for(rule: str, graph: Graph, with_rule: str, without: str) -> None:
    assert str(analyse(graph).label("out")) == with_rule
    assert str(analyse(graph, SOUND.without(rule)).label("out")) == without


def test_streams_that_meet_are_sealed_only_on_what_all_are_sealed() -> None:
    assert analyse(fan_in()).label("out") is Severity.RUN


def test_an_unsealed_writer_of_a_sealed_state_taints_it() -> None:
    paths = (path("a", "out", "OW", ["k"]), path("b", "other", "CW"))
    graph = Graph(
        (Component("c", paths),),
        (
            DataStream("a", None, ("c", "a"), sealed("k")),
            DataStream("b", None, ("c", "b")),
            DataStream("out", ("c", "out"), None),
        ),
    )
    assert analyse(graph).label("out") is Severity.RUN


def test_a_replicated_stream_makes_its_consumers_replicated() -> None:
    graph = chain(
        path("in", "m", "CR"), path("m", "out", "OW"), source=DataStream("s", None, None, replicated=True)
    )
    assert analyse(graph).label("out") is Severity.DIVERGE
    assert analyse(graph, SOUND.without("S7")).label("out") is Severity.RUN

"""Which outputs feed which inputs: by equal names, or by declared streams."""

from __future__ import annotations

from typing import Any

from tests.control.coordination.test_annotations import COUNT, component, graph

SPLITTER = {"Splitter": {"annotation": [{"from": "tweets", "to": "words", "label": "CR"}]}}


def test_equal_names_of_different_components_are_connected() -> None:
    found = graph({**SPLITTER, **COUNT})
    assert [(each.name, each.producer, each.consumer) for each in found.streams] == [
        ("tweets", None, ("Splitter", "tweets")),
        ("words", ("Splitter", "words"), ("Count", "words")),
        ("counts", ("Count", "counts"), None),
    ]
    assert found.notes == ("2 paths without lineage: columns of equal names are taken to be unchanged",)


def test_declared_streams_replace_names() -> None:
    streams = [
        {
            "name": "again",
            "from": "C.b",
            "to": "C.a",
            "delayed": True,
            "seal": ["k"],
            "rep": True,
            "order": "M2",
        },
        {"name": "in", "to": "C.a", "once": False, "seal": "order(ts)"},
    ]
    again, first = graph({**component(), "streams": streams}).streams
    assert (again.delayed, again.replicated, again.order) == (True, True, "M2")
    assert (first.producer, first.once, first.seals[0].ordered) == (None, False, True)


def test_what_no_declared_stream_connects_is_a_source_or_an_output() -> None:
    streams = [{"name": "in", "to": "C.a"}]
    assert [each.name for each in graph({**component(), "streams": streams}).outputs] == ["b"]


def test_outputs_of_one_name_have_the_name_of_their_component() -> None:
    one = {"from": "a", "to": "out", "label": "CR"}
    found = graph({"A": {"annotation": one}, "B": {"annotation": one}})
    assert [each.name for each in found.outputs] == ["A.out", "B.out"]


def test_equal_names_that_no_declared_stream_has_stay_connected() -> None:
    sealed: list[dict[str, Any]] = [{"name": "lines", "to": "Splitter.tweets"}]
    found = graph({**SPLITTER, **COUNT, "streams": sealed})
    assert [(each.name, each.producer, each.consumer) for each in found.streams] == [
        ("lines", None, ("Splitter", "tweets")),
        ("words", ("Splitter", "words"), ("Count", "words")),
        ("counts", ("Count", "counts"), None),
    ]


def test_a_declared_end_disconnects_an_equal_name() -> None:
    apart = [{"name": "out", "from": "Splitter.words"}, {"name": "in", "to": "Count.words"}]
    found = graph({**SPLITTER, **COUNT, "streams": apart})
    assert [each.name for each in found.outputs] == ["out", "counts"]


def test_a_stream_without_ends_annotates_its_name_beside_one_with_ends() -> None:
    streams = [{"name": "lines", "to": "Splitter.tweets"}, {"name": "words", "seal": ["batch"]}]
    found = graph({**SPLITTER, **COUNT, "streams": streams})
    (words,) = [each for each in found.streams if each.name == "words"]
    assert (words.producer, words.consumer) == (("Splitter", "words"), ("Count", "words"))
    assert words.seals[0].key == {"batch"}

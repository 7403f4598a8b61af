"""Annotation files: the paper's format, our additions, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.coordination.annotations import joined, read_annotations
from elfmesh.control.coordination.document import Document
from elfmesh.control.coordination.graph import Graph
from elfmesh.errors import DataError

COUNT = {"Count": {"annotation": {"from": "words", "to": "counts", "label": "OW", "subscript": ["word"]}}}


def graph(values: Any) -> Graph:
    (found,) = read_annotations(Document("f.yaml", values)).graphs({}).values()
    return found


def component(**path: Any) -> dict[str, Any]:
    return {"C": {"annotation": {"from": "a", "to": "b", "label": "CR", **path}}}


def test_variants_are_inside_a_component_or_behind_it() -> None:
    path = {"from": "a", "to": "b", "label": "OR"}
    for values in ({"C": {"X": path, "Y": path}}, {"C": {"X": path}, "Y": path}):
        flow = read_annotations(Document("f", values))
        assert sorted(flow.graphs({})) == ["X", "Y"]
        assert sorted(flow.graphs({"C": "Y"})) == ["Y"]
        with pytest.raises(DataError, match="no variant C=Z"):
            flow.graphs({"C": "Z"})


def test_there_is_a_limit_to_the_choices_of_variants() -> None:
    path = {"from": "a", "to": "b", "label": "OR"}
    values = {f"C{at}": {"X": path, "Y": path} for at in range(40)}
    with pytest.raises(DataError, match="more than 64 choices"):
        read_annotations(Document("f", values)).graphs({})


def test_several_files_are_one_dataflow() -> None:
    flows = [read_annotations(Document(name, each)) for name, each in (("f", component()), ("g", COUNT))]
    (found,) = joined(flows).graphs({}).values()
    assert [each.name for each in found.components] == ["C", "Count"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "an annotation file maps names"),
        ([], "an annotation file maps names"),
        ({"streams": []}, "no component"),
        ({"C": 3}, "component C needs an annotation"),
        ({"C": {}}, "component C has no path"),
        ({"C": {"annotation": []}}, "component C has no path"),
        ({"C": {"Repp": True}}, "unknown key 'Repp'; Did you mean Rep"),
        ({"C": {"Rep": "yes", "annotation": []}}, "Rep is true or false"),
        ({"C": {"annotation": ["x"]}}, "a path is written"),
        (component(label="XX"), "unknown label 'XX'; there are CR, CW, OR, OW"),
        (component(label=["OR"]), "unknown label 'list'"),
        (component(subscript=["id"]), r"a confluent path \(CR\) has no subscript"),
        (component(label="OR", subscript=[]), "an empty list of columns"),
        (component(label="OR", subscript=[[]]), "a name is a text"),
        (component(extra=1), "unknown key 'extra'"),
        (component(lineage=[1]), "lineage maps each output column"),
        (component(to="x" * 300), "a name is a text of 1 to 200 characters"),
        (component(to="a\x1b[2J"), r"control characters in the name 'a\\x1b"),
        (component(to=None), "a name is a text"),
        ({"C": {"annotation": {"from": "a", "label": "CR"}}}, "a path without `to`"),
        ({"C": {"annotation": [component()["C"]["annotation"]] * 2}}, "two labels for the path a -> b"),
        ({**component(), "streams": {}}, "streams is a list"),
        ({**component(), "streams": [{}]}, "a stream needs a name"),
        ({**component(), "streams": [{"name": "x"}]}, "no stream x"),
        ({**component(), "streams": [{"name": "x", "from": "D.b"}]}, "stream x: unknown component D"),
        ({**component(), "streams": [{"name": "x", "from": "b"}]}, "COMPONENT.INTERFACE"),
        ({**component(), "streams": [{"name": "a", "order": "M3"}]}, "unknown order 'M3'"),
        ({**component(), "streams": [{"name": "a", "sealed": "k"}]}, "unknown key 'sealed'"),
        ({**component(), "dependencies": ["a"]}, 'a dependency is written "id -> campaign"'),
        ({**component(), "dependencies": "a -> b"}, "dependencies is a list"),
        ({"C": component()["C"], 3: {}}, "a name is a text"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        graph(values)
    assert "f.yaml" in str(caught.value)
    assert "\n" not in caught.value.message

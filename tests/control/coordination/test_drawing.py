"""Text, JSON, DOT and SVG of an analysis, with names that would break them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.drawing import described, dot, lines, summary, svg, values
from elfmesh.control.coordination.graph import Component, DataStream, Graph
from elfmesh.errors import DataError
from tests.control.coordination.graphs import chain, path, ring
from tests.control.coordination.papers import ad_network, word_count

HOSTILE = 'a"];}\n<script>\x1b[2J\\'


def hostile() -> Graph:
    return Graph(
        (Component(HOSTILE, (path(HOSTILE, HOSTILE, "OW", [HOSTILE]),)),),
        (
            DataStream(HOSTILE, None, (HOSTILE, HOSTILE)),
            DataStream(HOSTILE + "2", (HOSTILE, HOSTILE), None),
        ),
    )


def test_text_has_each_output_with_its_causes_and_repairs() -> None:
    shown = list(lines(ad_network("POOR", "")))
    assert shown[0] == "response   Diverge"
    assert any("rule 1: Async gives NDRead; response is Inst" in each for each in shown)
    assert any("rule 3: Inst gives Taint; response is Diverge (paper.yaml:4)" in each for each in shown)
    assert "    seal on key (id) at Report: click" in shown
    assert any("repair to Run, which is more than required" in each for each in shown)
    assert shown[-1] == "1 output: 1 Diverge"
    assert next(lines(word_count("batch"))) == "db   Async   sealed (batch)"


def test_a_summary_counts_outputs_by_label() -> None:
    assert summary(analyse(Graph((), ()))) == "0 outputs: none"


def test_values_are_json_with_the_derivation() -> None:
    found = json.loads(json.dumps(values(ad_network("POOR", ""))))
    (output,) = found["outputs"]
    assert output["label"] == "Diverge"
    assert output["derivation"][-1]["rule"] == "3"
    assert output["derivation"][-1]["at"] == {"file": "paper.yaml", "line": 4, "column": 0}
    assert output["repairs"][0]["steps"] == [
        {"strategy": "seal on key", "component": "Report", "streams": ["click"], "key": ["id"]}
    ]
    assert {each["name"]: each["rep"] for each in found["components"]} == {"Cache": True, "Report": True}
    labels = {(each["from"], each["to"]): each["label"] for each in found["streams"]}
    assert labels["Report.response", "Cache.response"] == "Inst"
    assert labels["Cache.response", None] == "Diverge"


def test_pictures_have_each_component() -> None:
    found = ad_network("POOR", "")
    assert dot(found).count("style=dashed") == 1
    tree = ET.fromstring(svg(found))
    texts = {each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Cache", "Report", "response: Inst", "response: Diverge"} <= texts


def test_pictures_of_cycles_end() -> None:
    assert ET.fromstring(svg(analyse(ring(6)))).tag.endswith("svg")


def test_hostile_names_break_no_format() -> None:
    found = analyse(hostile())
    text = dot(found)
    assert "\x1b" not in text
    assert all(
        '"' not in line.replace('\\"', "").split('"', 2)[1] for line in text.splitlines() if '"' in line
    )
    assert ET.fromstring(svg(found)) is not None
    assert "<script>" not in svg(found)
    assert described(found.why(HOSTILE + "2")[0])


def test_a_dataflow_that_cannot_be_read_as_a_picture_is_not_drawn() -> None:
    graph = chain(*(path("in", "out", "CR") for _ in range(501)))
    with pytest.raises(DataError, match="more than 500 components"):
        svg(analyse(graph))

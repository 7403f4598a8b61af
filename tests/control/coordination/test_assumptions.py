"""What the assumptions of a text change in its labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.graph import SealedOn
from elfmesh.control.coordination.statements import CONDITIONS, dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.ql import parse_many
from tests.control.coordination.test_statements import analysed

POOR = (
    "CREATE JOB ads.poor EVERY '1 h' {} AS "
    "SELECT id, count(*) AS n FROM clicks GROUP BY id HAVING count(*) < 100"
)


def sealed_by_producers(text: str, *key: str) -> Analysis:
    """As if producers sealed the clicks, and no watermark ended an interval."""
    graph = dataflow(job_graph(parse_many(text, source="f.elfql")))
    streams = tuple(
        replace(each, seals=(SealedOn(frozenset(key)),) if each.name.endswith(" clicks") else ())
        for each in graph.streams
    )
    return analyse(replace(graph, streams=streams))


@pytest.mark.parametrize(
    ("clause", "key", "label"),
    [
        ("", ["id"], "Async"),
        ("", ["campaign"], "Run"),
        ("ASSUME (id -> campaign)", ["campaign"], "Async"),
        ("ASSUME (id -> campaign, campaign -> shop)", ["shop"], "Async"),
        ("ASSUME (campaign -> id)", ["campaign"], "Run"),
        ("ASSUME (id -> campaign)", ["shop"], "Run"),
        ("ASSUME ((id, host) -> campaign)", ["campaign"], "Run"),
        ("ASSUME (id >= 0)", ["campaign"], "Run"),
    ],
)
def test_a_dependency_that_is_assumed_makes_a_seal_fit_a_gate(
    clause: str, key: list[str], label: str
) -> None:
    """Rule S5: the paper's POOR, whose gate is id, can be sealed on campaign."""
    assert sealed_by_producers(POOR.format(clause), *key).shown("ads.poor") == label


def test_an_assumption_is_about_the_stream_of_its_own_job() -> None:
    other = POOR.replace("ads.poor", "ads.other").replace("clicks", "views")
    texts = f"{POOR.format('')};{other.format('ASSUME (id -> campaign)')}"
    assert sealed_by_producers(texts, "campaign").shown("ads.poor") == "Run"


def test_the_assumptions_are_conditions_of_all_labels_of_the_job() -> None:
    text = POOR.format("EARLY '1 s' ASSUME (id -> campaign, bytes >= 0)").replace("< 100", "> 100")
    analysis = analysed(text)
    assumed = {"assumption_broken = 0 (id -> campaign)", "assumption_broken = 0 (bytes >= 0)"}
    assert analysis.outputs["ads.poor"].conditions == {*CONDITIONS, *assumed}
    assert analysis.outputs["ads.poor early"].conditions == assumed
    (read,) = [each.path for each in analysis.why("ads.poor") if each.path.source == "clicks"]
    assert read.why.endswith("; ASSUME id -> campaign; ASSUME bytes >= 0")
    (first,) = analysis.graph.dependencies
    assert (str(first), str(first.at)) == ("id -> campaign", "f.elfql:1:53")


def test_sealed_and_an_assumption_answer_the_query_of_the_paper() -> None:
    text = (
        "CREATE JOB ads.poor EVERY '1 s' ASSUME (id -> campaign) AS SELECT campaign, id, count(*) AS clicks "
        "FROM clicks GROUP BY SEALED(campaign WHEN event = 'campaign_end' PRODUCERS ONE AFTER '24 h'), id "
        "HAVING count(*) < 100"
    )
    assert analysed(text).shown("ads.poor") == "Async"

"""Labels of the paper's case studies, lineage, cycles, and properties of labels."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.graph import Component, DataStream, Determines, Graph
from elfmesh.control.coordination.labels import Annotation, Severity
from elfmesh.control.coordination.rules import PAPER, SOUND, RuleSet
from tests.control.coordination.graphs import chain, path, random_graph, ring, sealed
from tests.control.coordination.papers import AD_NETWORK, QUERIES, ad_network, analysed, word_count

BOTH = ("sound", "paper")
SEALS = ("", "campaign", "window", "id")
BAD = ("Diverge", "Inst")
GOOD = ("Async", "Async")


@pytest.mark.parametrize("rules", BOTH)
@pytest.mark.parametrize(
    ("seal", "count", "db"),
    [
        ("", "Run", "Run"),
        ("batch", "Async", "Async"),
        ("word", "Async", "Async"),
        ("word, batch", "Async", "Async"),
        ("user", "Run", "Run"),
    ],
)
def test_word_count(rules: str, seal: str, count: str, db: str) -> None:
    """Paper, VI-A2: "derives an output label of Run for the word count dataflow" without seals."""
    found = word_count(seal, rules)
    assert (str(found.at("Count", "counts")), str(found.label("db"))) == (count, db)


TABLE = {
    "THRESH": (GOOD, GOOD, GOOD, GOOD),
    "POOR": (BAD, BAD, BAD, GOOD),
    "WINDOW": (BAD, BAD, GOOD, GOOD),
    "CAMPAIGN": (BAD, GOOD, BAD, GOOD),
}


@pytest.mark.parametrize("rules", BOTH)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seal", SEALS)
def test_ad_network(rules: str, query: str, seal: str) -> None:
    """Paper, VI-B2: THRESH is Async, POOR Diverge, CAMPAIGN sealed on campaign Async."""
    found = ad_network(query, seal, rules)
    labels = (str(found.label("response")), str(found.at("Report", "response")))
    assert labels == TABLE[query][SEALS.index(seal)]


@pytest.mark.parametrize("query", ["POOR", "WINDOW"])
def test_a_dependency_makes_a_seal_compatible(query: str) -> None:
    known = 'dependencies: ["id -> campaign"]\n'
    assert str(ad_network(query, "campaign", "sound", known).label("response")) == "Async"
    assert str(ad_network(query, "campaign", "paper", known).label("response")) == "Diverge"


@pytest.mark.parametrize(("rules", "label"), [("sound", "Inst"), ("paper", "Run")])
def test_a_cache_that_is_not_replicated_does_not_diverge(rules: str, label: str) -> None:
    text = AD_NETWORK.replace("Cache:\n", "Cache:\n  Rep: false\n", 1)
    assert str(analysed(text, rules, Report="POOR").label("response")) == label


def test_thresh_as_one_component_is_confluent() -> None:
    found = analysed("Service: {Rep: true, annotation: {from: click, to: response, label: CW}}")
    assert found.label("response") is Severity.ASYNC


# -- lineage


@pytest.mark.parametrize(
    ("lineage", "gate", "label"),
    [
        ({"k": "k"}, "k", "Async"),
        ({"k": "upper(k)"}, "k", "Run"),  # overwritten
        ({"v": "v"}, "k", "Run"),  # dropped
        ({"key": "k"}, "key", "Async"),  # renamed
        ({"key": "hex(k)"}, "key", "Async"),  # made injectively
        ({"key": "sha1(k)"}, "key", "Run"),  # made otherwise
    ],
)
def test_a_seal_survives_only_with_its_key(lineage: dict[str, str], gate: str, label: str) -> None:
    graph = chain(
        path("in", "out", "CR", lineage=lineage),
        path("in", "out", "OW", [gate]),
        source=DataStream("s", None, None, sealed("k")),
    )
    assert str(analyse(graph).label("out")) == label


def test_a_dependency_of_an_overwritten_column_is_lost() -> None:
    """In a trial with dependencies of names, this was an unsound label."""
    graph = chain(
        path("in", "out", "CR", lineage={"id": "lower(id)", "campaign": "campaign"}),
        path("in", "out", "OW", ["id"]),
        source=DataStream("s", None, None, sealed("campaign")),
        dependencies=[Determines(frozenset({"id"}), frozenset({"campaign"}))],
    )
    assert analyse(graph).label("out") is Severity.RUN
    assert analyse(graph, SOUND.without("lineage")).label("out") is Severity.ASYNC


# -- cycles


def test_a_component_that_feeds_itself() -> None:
    """The cache's own edge: its responses also go to itself."""
    own = """\
streams:
  - {name: own, from: Cache.response, to: Cache.response}
  - {name: asked, from: Cache.request, to: Report.request}
  - {name: answered, from: Report.response, to: Cache.response}
  - {name: response, from: Cache.response}
"""
    for rules in BOTH:
        for query, label in (("POOR", "Diverge"), ("THRESH", "Async")):
            assert str(analysed(AD_NETWORK + own, rules, Report=query).label("response")) == label


def test_a_delay_cuts_a_cycle() -> None:
    assert analyse(ring(3, delayed=True, kind="OW")).label("out") is Severity.ASYNC
    assert analyse(ring(3, delayed=False, kind="OW")).label("out") is Severity.RUN


def test_a_label_goes_around_a_delayed_cycle() -> None:
    late = DataStream("late", ("b", "out"), ("a", "in"), delayed=True)
    graph = Graph(
        (Component("a", (path("in", "out", "CR"),)), Component("b", (path("in", "out", "OW"),))),
        (
            DataStream("s", None, ("a", "in")),
            DataStream("m", ("a", "out"), ("b", "in")),
            late,
            DataStream("first", ("a", "out"), None),
        ),
    )
    assert analyse(graph).label("first") is Severity.RUN


def test_a_cycle_with_a_read_and_a_store_diverges_where_it_is_replicated() -> None:
    graph = Graph(
        (
            Component("a", (path("in", "out", "OR", ["k"]),), True),
            Component("b", (path("in", "out", "CW"),), True),
        ),
        (
            DataStream("s", None, ("a", "in")),
            DataStream("m", ("a", "out"), ("b", "in")),
            DataStream("r", ("b", "out"), ("a", "in")),
            DataStream("out", ("b", "out"), None),
        ),
    )
    assert analyse(graph).label("out") is Severity.DIVERGE
    assert analyse(graph, "paper").label("out") is Severity.INST, "the most severe single annotation is OR"


@pytest.mark.parametrize("kind", ["CR", "OW"])
def test_the_steps_of_a_large_ring_grow_with_its_size(kind: str) -> None:
    small, large = (analyse(ring(size, kind=kind)).steps for size in (100, 10_000))
    assert large <= 110 * small


def test_the_steps_of_a_large_delayed_ring_grow_with_its_size() -> None:
    small, large = (analyse(ring(size, delayed=True)).steps for size in (100, 10_000))
    assert large <= 110 * small


# -- properties


def by_ways(graph: Graph, port: tuple[str, str]) -> tuple[Severity, frozenset[frozenset[str]]]:
    """The paper's method: follow each way from the sources again, with nothing remembered. Only for PAPER."""
    given = {each.name: each for each in graph.components}
    replicated = analyse(graph, PAPER).replicated
    found = []
    for each in given[port[0]].paths:
        if each.target != port[1]:
            continue
        labels = []
        for stream in graph.streams:
            if stream.consumer == (port[0], each.source):
                severity, seals = (
                    (Severity.ASYNC, frozenset[frozenset[str]]())
                    if stream.producer is None
                    else by_ways(graph, stream.producer)
                )
                labels.append((severity, seals | {seal.key for seal in stream.seals}))
        severity = max((label[0] for label in labels), default=Severity.ASYNC)
        seals = frozenset.intersection(*(label[1] for label in labels)) if labels else frozenset()
        found.append((each.annotation, severity, seals))
    return reconciled(found, port[0] in replicated)


def reconciled(
    found: list[tuple[Annotation, Severity, frozenset[frozenset[str]]]], rep: bool
) -> tuple[Severity, frozenset[frozenset[str]]]:
    def fits(gates: tuple[frozenset[str], ...], seals: frozenset[frozenset[str]]) -> bool:
        return bool(gates) and all(any(seal <= gate for seal in seals) for gate in gates)

    labels = [Severity.ASYNC]
    reads, kept = [], []
    for annotation, severity, seals in found:
        early = annotation.order_sensitive and severity <= Severity.RUN and not fits(annotation.gates, seals)
        if annotation.writes and (severity is Severity.INST or early):
            labels.append(Severity.DIVERGE if rep else Severity.RUN)
            kept.append((Severity.DIVERGE, frozenset[frozenset[str]]()))
        elif early and not seals:
            reads.append(annotation.gates)
            kept.append((Severity.DIVERGE, frozenset()))
        else:
            labels.append(severity)
            kept.append((severity, seals))
    for gates in reads:
        others = list(kept)
        others.remove((Severity.DIVERGE, frozenset()))
        if not others or not all(one is Severity.ASYNC and fits(gates, seals) for one, seals in others):
            labels.append(Severity.INST if rep else Severity.RUN)
    return max(labels), frozenset.intersection(*(seals for _, _, seals in found))


def test_one_pass_gives_the_labels_of_the_paper_s_method() -> None:
    for seed in range(300):
        graph = random_graph(random.Random(seed), 5)
        graph = Graph(graph.components, graph.streams)  # dependencies need attributes
        (out,) = graph.outputs
        assert out.producer is not None
        assert by_ways(graph, out.producer)[0] is analyse(graph, PAPER).label("out"), seed


@pytest.mark.parametrize("rules", [SOUND, PAPER], ids=lambda each: each.name)
def test_taking_a_rule_away_never_changes_labels_of_confluent_dataflows(rules: RuleSet) -> None:
    for seed in range(200):
        graph = random_graph(random.Random(seed))
        confluent = all(not p.annotation.order_sensitive for c in graph.components for p in c.paths)
        once = all(each.once for each in graph.streams)
        if confluent and once:
            assert analyse(graph, rules).label("out") is Severity.ASYNC


def test_more_seals_never_raise_a_label() -> None:
    for seed in range(300):
        graph = random_graph(random.Random(seed))
        streams = tuple(
            DataStream(s.name, s.producer, s.consumer, (*s.seals, *sealed("a")), s.replicated, s.once)
            if s.producer is None
            else s
            for s in graph.streams
        )
        more = Graph(graph.components, streams, graph.dependencies)
        assert analyse(more).label("out") <= analyse(graph).label("out"), seed

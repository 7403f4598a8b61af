"""Repairs reach the required label, and no part of them does."""

from __future__ import annotations

import itertools
import random

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.cost import ORDERED, SEAL_INTERVAL, SEAL_KEY, SEQUENCED, Circumstances
from elfmesh.control.coordination.graph import DataStream
from elfmesh.control.coordination.labels import Severity
from elfmesh.control.coordination.repair import applied, repairs
from tests.control.coordination.graphs import chain, path, random_graph
from tests.control.coordination.papers import ad_network, word_count


def test_repairs_are_minimal() -> None:
    """Every strict part of a repair leaves a higher label: 500 random dataflows of up to 8 components."""
    repaired = 0
    for seed in range(500):
        graph = random_graph(random.Random(seed), 8)
        for plan in repairs(analyse(graph), "out"):
            assert analyse(applied(graph, plan.steps)).label("out") is plan.label
            repaired += 1
            for size in range(len(plan.steps)):
                for part in itertools.combinations(plan.steps, size):
                    assert analyse(applied(graph, part)).label("out") > plan.label, seed
    assert repaired > 300


def test_the_first_repair_is_the_cheapest() -> None:
    for seed in range(200):
        found = repairs(analyse(random_graph(random.Random(seed), 4)), "out")
        first = [each for each in found if each.label is Severity.ASYNC]
        assert all(first[0].cost <= each.cost for each in first[1:])


def test_word_count_is_repaired_by_a_seal_or_by_ordered_commits() -> None:
    """Paper, VI-A2: a transactional topology orders the batches; a seal on batch needs no order."""
    found = repairs(word_count(""), "db")
    steps = [(each.label, *(str(step) for step in each.steps)) for each in found]
    assert steps == [
        (Severity.ASYNC, "seal on key (batch) at Count: words"),
        (Severity.ASYNC, "sequenced at Count: words"),
    ]


def test_an_order_decided_while_running_leaves_run() -> None:
    (_, _, last) = repairs(ad_network("POOR", ""), "response")
    assert [each.strategy for each in last.steps] == [ORDERED]
    assert last.label is Severity.RUN


def test_a_seal_covers_the_streams_that_write_and_an_order_also_those_that_read() -> None:
    first, second, _ = repairs(ad_network("POOR", ""), "response")
    assert [(each.strategy, each.streams) for each in first.steps] == [(SEAL_KEY, ("click",))]
    assert [(each.strategy, each.streams) for each in second.steps] == [(SEQUENCED, ("click", "request"))]


def test_windows_are_sealed_on_their_interval() -> None:
    found = repairs(analyse(chain(path("in", "out", "OW", ["window(ts)"]))), "out")
    assert [each.strategy for each in found[0].steps] == [SEAL_INTERVAL]
    assert found[0].expected_s(Circumstances(lateness_s=2)) == pytest.approx(2.04)
    assert found[0].formula == "LATENESS + barrier"


def test_an_unknown_gate_needs_an_order() -> None:
    found = repairs(analyse(chain(path("in", "out", "OW"))), "out")
    assert [each.steps[0].strategy for each in found] == [SEQUENCED]


def test_nothing_repairs_records_that_arrive_twice() -> None:
    source = DataStream("s", None, None, once=False)
    assert repairs(analyse(chain(path("in", "out", "CW"), source=source)), "out") == []


def test_a_label_that_suffices_needs_no_repair() -> None:
    found = word_count("")
    assert repairs(found, "db", Severity.RUN) == []
    assert repairs(word_count("batch"), "db") == []


def test_a_search_with_many_places_is_greedy_and_not_exact() -> None:
    graph = chain(*(path("in", "out", "OW", [f"k{at}"]) for at in range(14)))
    plan = repairs(analyse(graph), "out")[0]
    assert not plan.exact
    assert plan.label is Severity.ASYNC
    assert analyse(applied(graph, plan.steps[1:])).label("out") > Severity.ASYNC

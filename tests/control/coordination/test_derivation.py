"""The derivations that the paper walks through, and the labels with their second case."""

from __future__ import annotations

import pytest

from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.errors import UsageError
from tests.control.coordination.graphs import chain, path
from tests.control.coordination.papers import ad_network, word_count

BOTH = ("sound", "paper")


def rules_of(found: Analysis, output: str) -> list[tuple[str, str, str, str]]:
    return [(each.output[0], str(each.path), each.rule, each.conclusion) for each in found.why(output)]


@pytest.mark.parametrize("rules", BOTH)
def test_the_derivation_of_poor(rules: str) -> None:
    """Request Async, OR_id, rule 1, NDRead, not protected, Rep: Inst; then rule 3, Taint, Rep: Diverge."""
    found = ad_network("POOR", "", rules)
    steps = rules_of(found, "response")
    assert ("Report", "request -> response", "1", "NDRead") in steps
    assert ("Cache", "response -> response", "3", "Taint") in steps
    assert steps.index(("Report", "request -> response", "1", "NDRead")) < steps.index(
        ("Cache", "response -> response", "3", "Taint")
    )
    assert str(found.at("Report", "response")) == "Inst"


def test_a_protected_read_is_named_in_the_paper_s_derivation() -> None:
    steps = rules_of(ad_network("CAMPAIGN", "campaign", "paper"), "response")
    assert ("Report", "request -> response", "1", "NDRead, protected") in steps


@pytest.mark.parametrize("rules", BOTH)
def test_the_derivation_of_word_count(rules: str) -> None:
    steps = rules_of(word_count("", rules), "db")
    assert steps == [
        ("Splitter", "tweets -> words", "p", "Async"),
        ("Count", "words -> counts", "2", "Taint"),
        ("Commit", "counts -> db", "p", "Run"),
    ]
    assert rules_of(word_count("user", rules), "db")[1][2] == "4"


def test_unknown_outputs_and_rules_are_named() -> None:
    graph = chain(path("in", "out", "CR"))
    with pytest.raises(UsageError, match="no output none"):
        analyse(graph).label("none")
    with pytest.raises(UsageError, match="no rules"):
        analyse(graph, "best")

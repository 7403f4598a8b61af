"""Assumptions are compared by what they say, not by where they stand."""

from __future__ import annotations

from elfmesh.ql.expressions.assumption import AssumedBound, AssumedDependency
from elfmesh.ql.expressions.text_source import TextPosition


def test_an_assumption_is_shown_as_it_is_written() -> None:
    assert str(AssumedBound("bytes", 0)) == "bytes >= 0"
    assert str(AssumedBound("load", 1.5, upper=True)) == "load <= 1.5"
    assert str(AssumedDependency(("id",), "campaign")) == "id -> campaign"
    assert str(AssumedDependency(("host", "id"), "campaign")) == "(host, id) -> campaign"


def test_the_place_does_not_distinguish_assumptions() -> None:
    assert AssumedBound("a", 0, at=TextPosition(1, 2)) == AssumedBound("a", 0)
    assert AssumedDependency(("a",), "b", at=TextPosition(1, 2)) == AssumedDependency(("a",), "b")
    assert AssumedBound("a", 0) != AssumedBound("a", 0, upper=True)


def test_the_columns_of_an_assumption_are_those_that_agents_read_for_it() -> None:
    assert AssumedBound("a.b", 0).columns == ("a.b",)
    assert AssumedDependency(("a", "b"), "c").columns == ("a", "b", "c")

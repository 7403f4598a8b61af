"""Other systems' cases: each is passed, not applicable or failing as declared, and the page says so."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.compat import arroyo, ekuiper, fluentbit, nexmark, page, risingwave, vrl_functions, vrl_queries
from tests.compat.cases import (
    FAILING,
    NO_DATA,
    NOT_APPLICABLE,
    PASSED,
    PEERS,
    Case,
    NotOurs,
    Ours,
    Outcome,
    difference,
    outcome,
    same_rows,
)
from tests.compat.risingwave import same_lines

needs_data = pytest.mark.skipif(not PEERS.is_dir(), reason=NO_DATA)

MODULES = (nexmark, risingwave, arroyo, ekuiper, fluentbit)
EMPTY = {*(f"union/{at}" for at in range(12, 16)), "aggregate__basic_agg/3"}
EMPTY |= {"14 select_from_tag_error", "17 @record.contains"}
"""Cases that expect no rows."""


@cache
def outcomes(peer: page.Peer) -> list[Outcome]:
    return peer.run()


@needs_data
@pytest.mark.parametrize("peer", page.PEERS, ids=lambda peer: peer.title)
def test_cases_are_what_they_are_declared_to_be(peer: page.Peer) -> None:
    names = [each.name for each in outcomes(peer)]
    assert names
    assert len(set(names)) == len(names)


@needs_data
def test_the_page_is_current() -> None:
    assert page.PAGE.read_text() == page.page({peer.title: outcomes(peer) for peer in page.PEERS})


def test_the_page_adds_up() -> None:
    """Also where the data is absent: the numbers of every section are those of the table."""
    text = page.PAGE.read_text()
    _, *sections = re.split(r"^## ", text, flags=re.M)
    total = Counter[str]()
    for peer, part in zip(page.PEERS, sections, strict=True):
        counts = Counter[str]()
        for state, number, which in re.findall(r"^\| ([a-z ]+) \| .* \| (\d+) \| (.*) \|$", part, re.M):
            several = [int(each) - 1 for each in re.findall(r" \((\d+)\)(?:,|$)", which)]
            assert len(which.split(", ")) + sum(several) == int(number)
            counts[state] += int(number)
        assert f"| {peer.title} | {counts.total()} | {cells(counts)} |" in text
        total += counts
    assert f"| all | {total.total()} | {cells(total)} |" in text


def cells(counts: Counter[str]) -> str:
    return " | ".join(str(counts[state]) for state in page.STATES)


@needs_data
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_translation_is_of_a_case(module: ModuleType) -> None:
    assert {case.name for case in module.cases()} == set(module.TRANSLATIONS)


@needs_data
def test_every_expression_is_of_an_example() -> None:
    names = {case.name for case in vrl_functions.cases()}
    assert {*vrl_functions.EXPRESSIONS, *vrl_queries.SINGLE} <= names
    assert {*vrl_functions.NOT_OURS} <= {*names, *(name.partition(":")[0] for name in names)}


@needs_data
@pytest.mark.parametrize("module", [*MODULES, vrl_functions], ids=lambda module: module.__name__)
def test_no_case_is_content_with_other_rows(module: ModuleType) -> None:
    cases = module.cases()
    assert {case.name for case in cases if not case.check([])} <= EMPTY
    assert not [case.name for case in cases if not case.check([{"a": "none of theirs"}] * 1000)]


def test_a_case_is_nothing_else_than_declared(tmp_path: Path) -> None:
    case = Case("sum", {"log": [{"a": 1}, {"a": 2}]}, same_rows([{"n": 3}], ordered=True))
    right, wrong, refused = (f"SELECT {what} AS n FROM log" for what in ("sum(a)", "max(a)", "nothing(a)"))
    assert outcome(case, Ours(right), tmp_path).state == PASSED
    assert outcome(case, Ours(wrong, failing="why"), tmp_path) == Outcome("sum", FAILING, "why")
    assert outcome(case, NotOurs("why"), tmp_path) == Outcome("sum", NOT_APPLICABLE, "why")
    for translation in (Ours(right, failing="why"), Ours(wrong), Ours(refused)):
        with pytest.raises(AssertionError, match="sum"):
            outcome(case, translation, tmp_path)
    assert outcome(replace(case, error=True), Ours(refused), tmp_path).state == PASSED


def test_rows_are_compared_exactly() -> None:
    assert difference([(1,), (2,)], [(2,), (1,)], ordered=False) == ""
    assert difference([(1,), (2,)], [(2,), (1,)], ordered=True) == "row 0 is (2,) instead of (1,)"
    assert difference([(1,)], [(1,), (1,)], ordered=False) != ""
    assert difference([(1,)], [(1,), (1,)], ordered=True) == "2 rows instead of 1"
    check = same_rows([{"a": 1, "b": 0.1}, {"a": 2}], ordered=True)
    assert check([{"a": 1.0, "b": 0.1}, {"a": 2, "b": None}]) == ""
    assert check([{"a": 1, "b": 0.1 + 2**-55}, {"a": 2, "b": None}]) != ""
    assert check([{"a": "1", "b": 0.1}, {"a": 2, "b": None}]) != ""
    assert check([{"a": 1, "b": 0.1, "c": 0}, {"a": 2, "b": None, "c": 0}]) != ""
    lines = same_lines(["1  4193850.5714285714285714285714 NULL", "a b"], ordered=False)
    assert lines([{"x": "a", "y": "b"}, {"x": 1, "y": 4193850.5714285714, "z": None}]) == ""
    assert lines([{"x": "a", "y": "b"}, {"x": 1, "y": 4193850.571428572, "z": None}]) != ""

"""Attributes, lineage, closures, and which seals fit."""

from __future__ import annotations

import random

import pytest

from elfmesh.control.coordination.attributes import (
    Attribute,
    Columns,
    Dependency,
    Seal,
    closure,
    compatible,
    compatible_in_paper,
    merged,
    translated,
)


def attributes(text: str) -> frozenset[Attribute]:
    return frozenset(Attribute("s", each) for each in text)


def test_ours_accepts_every_pair_that_the_paper_accepts() -> None:
    """10,000 random dependencies; some pairs are accepted by ours alone."""
    accepted, more = 0, 0
    for seed in range(10_000):
        rng = random.Random(seed)

        def some(rng: random.Random = rng) -> frozenset[Attribute]:
            return attributes("".join(rng.sample("abcde", rng.randint(1, 2))))

        known = [Dependency(some(), some(), rng.random() < 0.5) for _ in range(rng.randint(0, 4))]
        gate, seal = some() | some(), Seal(some())
        ours, theirs = compatible(gate, seal, known), compatible_in_paper(gate, seal, known)
        assert ours or not theirs, seed
        accepted += theirs
        more += ours and not theirs
    assert accepted > 1_000
    assert more > 100


def test_closure_follows_chains_and_both_sides_of_an_injective_dependency() -> None:
    known = [
        Dependency(attributes("a"), attributes("b")),
        Dependency(attributes("c"), attributes("b"), injective=True),
        Dependency(attributes("cd"), attributes("e")),
    ]
    assert closure(attributes("a"), known) == attributes("abc")
    assert closure(attributes("ad"), known) == attributes("abcde")
    assert closure(attributes("e"), known) == attributes("e")


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ("id", Attribute("s", "id")),
        ("hex(id)", Attribute("s", "id")),
        ("window(ts)", Attribute("s", "ts", windowed=True)),
        ("upper(id)", None),
        ("id + 1", Attribute("s", "id + 1")),
    ],
)
def test_expressions_over_a_stream(expression: str, attribute: Attribute | None) -> None:
    assert Columns("s").attribute(expression) == attribute


def test_columns_that_are_listed_hide_all_others() -> None:
    columns = Columns("s").derived([("key", "id"), ("id", "upper(id)")], "c.out")
    assert columns.attribute("key") == Attribute("s", "id")
    assert columns.attribute("id") == Attribute("c.out", "id")
    assert columns.attribute("other") is None
    assert columns.name_of(Attribute("s", "id")) == "key"
    assert columns.name_of(Attribute("s", "other")) is None


def test_a_name_means_one_thing_where_streams_meet_only_if_all_agree() -> None:
    one, other = Columns("s", (("x", Attribute("t", "x")),)), Columns("s", (("y", Attribute("t", "y")),))
    met = merged([one, other], "c.in")
    assert met.attribute("id") == Attribute("s", "id")
    assert met.attribute("x") == Attribute("c.in", "x")
    apart = merged([Columns("s"), Columns("t")], "c.in")
    assert apart.attribute("id") == Attribute("c.in", "id")
    assert translated(Seal(attributes("k")), Columns("s"), apart) == Seal(frozenset({Attribute("c.in", "k")}))
    assert translated(Seal(attributes("k")), Columns(None), apart) is None


def test_seals_are_shown_by_their_names() -> None:
    assert str(Seal(attributes("ba"))) == "a, b"
    assert str(Seal(attributes("t"), ordered=True)) == "order(t)"
    assert str(Seal(frozenset({Attribute("s", "t", windowed=True)}))) == "window(t)"

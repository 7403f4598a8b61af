"""Relations over parts: how many inputs a row has, and whether it needs a row of some part."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from elfmesh.ql.expressions.text_source import NOWHERE
from elfmesh.ql.plan.relation import JoinRelation, Prefixed, StatementPart, Union, joined_inputs, rests_on
from elfmesh.ql.plan.relation_base import Relation


def part(index: int) -> StatementPart:
    return StatementPart(("a",), NOWHERE, index)


def joined(kind: str, left: Relation, right: Relation) -> JoinRelation:
    return JoinRelation(("a",), NOWHERE, kind, left, Prefixed(("a",), NOWHERE, right), (), None)


TOTALS = JoinRelation(("a",), NOWHERE, "left", part(0), part(1), (), None)
"""Rows beside totals of them, as OVER (PARTITION BY) makes them: their right side is not prefixed."""


@pytest.mark.parametrize(
    ("relation", "apart", "inputs"),
    [
        (None, (), 1),
        (part(0), (), 1),
        (part(0), (0,), 0),
        (joined("inner", part(0), part(1)), (), 2),
        (joined("inner", part(0), part(1)), (1,), 1),
        (joined("left", joined("inner", part(0), part(1)), part(0)), (), 3),
        (Union(("a",), NOWHERE, (part(0), joined("inner", part(0), part(1)))), (), 2),
        (TOTALS, (), 1),
    ],
)
def test_inputs_of_a_row(relation: Relation | None, apart: Collection[int], inputs: int) -> None:
    assert joined_inputs(relation, apart) == inputs


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("inner", True, True),
        ("left", True, False),
        ("right", False, True),
        ("full", False, False),
        ("semi", True, False),
        ("anti", True, False),
    ],
)
def test_a_join_has_rows_only_where_the_sides_have_that_its_kind_needs(
    kind: str, left: bool, right: bool
) -> None:
    relation = joined(kind, part(0), part(1))
    assert rests_on(relation, {0}) is left
    assert rests_on(relation, {1}) is right
    assert rests_on(relation, {0, 1})


def test_a_union_has_rows_where_any_source_has() -> None:
    both = Union(("a",), NOWHERE, (part(0), part(1)))
    assert not rests_on(both, {0})
    assert rests_on(both, {0, 1})

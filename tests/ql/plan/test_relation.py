"""Relations over parts: whether a row needs a row of some part."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.ql.expressions.text_source import NOWHERE
from elfmesh.ql.plan.relation import (
    JoinRelation,
    OneRow,
    Prefixed,
    StatementPart,
    Union,
    fidelity_shape,
    rests_on,
)
from elfmesh.ql.plan.relation_base import Relation


def part(index: int) -> StatementPart:
    return StatementPart(("a",), NOWHERE, index)


def joined(kind: str, left: Relation, right: Relation) -> JoinRelation:
    return JoinRelation(("a",), NOWHERE, kind, left, Prefixed(("a",), NOWHERE, right), (), None)


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


def test_a_row_without_from_rests_on_nothing_and_lacks_nothing() -> None:
    row = OneRow(("#0",), NOWHERE)
    assert not rests_on(row, {0})
    assert rests_on(joined("inner", row, part(0)), {0})
    shape = fidelity_shape(Union(("a",), NOWHERE, (part(0), row)))
    assert shape.share([0.5], [1.0]) == 0.5


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT k, count(*) AS n FROM clicks GROUP BY k ORDER BY n DESC LIMIT 3", ("k",)),
        (
            "SELECT status, upper(k) AS u, count(DISTINCT v) AS n FROM clicks GROUP BY status, k",
            ("status", "u"),
        ),
        ("SELECT window_start, count(*) AS n, 1 AS one FROM clicks", ()),
        ("SELECT a.k, count(*) AS n FROM clicks a JOIN sales b ON a.k = b.k GROUP BY a.k", ("k",)),
        ("SELECT k, max(n) AS n FROM (SELECT k, j, count(*) AS n FROM c GROUP BY k, j) GROUP BY k", ("k",)),
        ("SELECT a, b FROM clicks", None),
        ("SELECT k, rank() OVER (ORDER BY n) AS r FROM (SELECT k, count(*) AS n FROM c GROUP BY k)", None),
    ],
)
def test_key_columns_are_made_of_the_group_keys(text: str, keys: tuple[str, ...] | None) -> None:
    statement = ql.parse(f"CREATE JOB shop.top EVERY '10 s' AS {text}")
    assert ql.key_columns(statement) == keys

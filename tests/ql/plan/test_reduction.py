"""Columns that a statement reduces to: equal ones are one."""

from __future__ import annotations

import pytest

from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal
from elfmesh.ql.functions import all  # noqa: F401 - fills the registry
from elfmesh.ql.plan.reduction import ReducedColumns, distinct_columns, makes_list

A, B = FieldRef("a"), FieldRef("b")


def test_equal_keys_values_and_states_are_one() -> None:
    columns = ReducedColumns()
    assert [columns.key(expr).name for expr in (A, B, A)] == ["k0", "k1", "k0"]
    states: list[tuple[str, list[Expr]]] = [
        ("sum", [A]), ("sum", [B]), ("sum", [A]), ("max", [A]), ("first", [A, B]), ("count", []),
    ]  # fmt: skip
    names = [columns.state(kind, *exprs).name for kind, exprs in states]
    assert names == ["a0", "a1", "a0", "a2", "a3", "a4"]
    (main,) = columns.tables()
    assert main.keys == ("k0", "k1")
    assert dict(main.aggregates) == {
        "a0": ("sum", "v0"), "a1": ("sum", "v1"), "a2": ("max", "v0"), "a3": ("first", ("v0", "v1")),
        "a4": ("count", None),
    }  # fmt: skip


def test_folds_share_a_table_of_distinct_values_where_they_need_the_same() -> None:
    columns = ReducedColumns()
    columns.key(A)
    folds = [
        ("count", (B,), None, ()),
        ("sum", (B,), None, ()),
        ("percentile", (B,), None, (0.5,)),
        ("percentile", (B,), None, (0.9,)),
        ("percentile", (B,), None, (0.5,)),
        ("count", (A, B), None, ()),
        ("count", (B,), A, ()),
    ]
    assert [columns.fold(*fold).name for fold in folds] == ["d0", "f0", "f1", "f2", "f1", "d2", "d3"]
    _main, *others = columns.tables()
    assert [(table.name, table.keys, bool(table.aggregates)) for table in others] == [
        ("d0", ("k0", "x"), False),
        ("d1", ("k0", "x"), True),  # a percentile also needs how often a value comes
        ("d2", ("k0", "x", "x1"), False),
        ("d3", ("k0", "x"), False),
    ]


@pytest.mark.parametrize(
    ("expr", "lists"),
    [
        (A, False),
        (Call("upper", (A,)), False),
        (Call("split", (A, B)), True),
        (Call("size", (Call("split", (A, B)),)), False),
        (Call("coalesce", (A, Call("split", (A, B)))), True),
        (Call("case", (A, B, Literal("bigint", 1))), False),
    ],
)
def test_a_list_is_no_key(expr: Expr, lists: bool) -> None:
    assert makes_list(expr) is lists


def test_names_of_distinct_values() -> None:
    assert distinct_columns(3) == ("x", "x1", "x2")

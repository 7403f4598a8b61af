"""Expressions: equal when they mean the same, walked parents first, rewritten from the top."""

from __future__ import annotations

import pytest

from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal, place_of, rewrite, walk
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition


def call(name: str, *args: Expr) -> Call:
    return Call(name, args)


ONE = Literal("bigint", 1)
TREE = call("add", FieldRef("a"), call("multiply", ONE, FieldRef("b")))


@pytest.mark.parametrize(
    "other",
    [
        Literal("double", 1.0),
        Literal("bool", True),
        Literal("string", "1"),
        Literal("bigint", 2),
        Literal("null", None),
    ],
)
def test_constants_that_are_equal_in_python_alone_are_not(other: Literal) -> None:
    assert other != ONE
    assert len({other, ONE}) == 2


def test_zeros_of_both_signs_are_two_constants() -> None:
    assert Literal("double", 0.0) != Literal("double", -0.0)
    assert Literal("double", float("nan")) == Literal("double", float("nan"))


def test_where_an_expression_stands_does_not_count() -> None:
    assert FieldRef("a", at=TextPosition(1, 1)) == FieldRef("a", at=TextPosition(9, 9))
    assert Literal("bigint", 1, at=TextPosition(1, 1)) == ONE


def test_parents_come_first_and_operands_from_the_left() -> None:
    names = [getattr(node, "name", getattr(node, "path", None)) for node in walk(TREE)]
    assert names == ["add", "a", "multiply", None, "b"]


def test_nothing_below_a_replaced_node_is_looked_at() -> None:
    seen: list[Expr] = []

    def change(expr: Expr) -> Expr | None:
        seen.append(expr)
        return ONE if getattr(expr, "name", "") == "multiply" else None

    assert rewrite(TREE, change) == call("add", FieldRef("a"), ONE)
    assert len(seen) == 3


def test_a_rewrite_that_changes_nothing_gives_an_equal_tree() -> None:
    assert rewrite(TREE, lambda _: None) == TREE


def test_the_place_of_an_expression_is_the_first_that_is_known() -> None:
    assert place_of(TREE) == NOWHERE
    assert place_of(call("add", FieldRef("a"), FieldRef("b", at=TextPosition(2, 5)))) == TextPosition(2, 5)

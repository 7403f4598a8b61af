"""Expansion of ORDER BY ALL to the columns of the select list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Expr, Literal, Star
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.statement import OrderItem


def is_all(node: Any) -> bool:
    return isinstance(node, exp.Var) and str(node.this).upper() == "ALL"


def order_by_all(node: exp.Ordered, columns: Sequence[Expr], place: TextPosition) -> list[OrderItem]:
    """Return one item for each column, by its number; a single one if `*` has unknown columns."""
    given = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    if any(isinstance(column, Star) for column in columns):
        return [OrderItem(Star(at=place), *given)]
    return [OrderItem(Literal("bigint", number, at=place), *given) for number in range(1, len(columns) + 1)]

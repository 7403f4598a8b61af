"""ORDER BY of a SELECT, and the expansion of ORDER BY ALL to the columns of the select list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Expr, Literal, Star
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.statement import OrderItem
from elfmesh.ql.plan.translating import Translating


def read_order(
    tree: Any, translator: Translating, columns: Sequence[Expr], error: Callable[[Any, str, str], Exception]
) -> list[OrderItem]:
    """Return the items of the ORDER BY of a query. Raises QueryError, which `error` makes of a node."""
    order = tree.args.get("order")
    nodes: list[Any] = [] if order is None else order.expressions
    if len(nodes) == 1 and is_all(nodes[0].this):
        return _order_by_all(nodes[0], columns, translator.place(order))
    items = []
    for node in nodes:
        if isinstance(node, exp.Ordered) and is_all(node.this):
            raise error(order, "ORDER BY ALL stands alone", "Write ORDER BY 1, 2.")
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            hint = "Write ORDER BY a DESC NULLS LAST."
            raise error(node, "this form of ORDER BY is not supported", hint)
        expr = translator.value(node.this)
        items.append(OrderItem(expr, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return items


def is_all(node: Any) -> bool:
    return isinstance(node, exp.Var) and str(node.this).upper() == "ALL"


def _order_by_all(node: exp.Ordered, columns: Sequence[Expr], place: TextPosition) -> list[OrderItem]:
    """Return one item for each column, by its number; a single one if `*` has unknown columns."""
    given = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    if any(isinstance(column, Star) for column in columns):
        return [OrderItem(Star(at=place), *given)]
    return [OrderItem(Literal("bigint", number, at=place), *given) for number in range(1, len(columns) + 1)]

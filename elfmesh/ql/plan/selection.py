"""SELECT between the parser and the analysis, as plain data."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.statement import OrderItem, WindowSpec


class Select(Struct):
    """Clauses of a SELECT as nodes, with names that are not resolved yet.

    `qualify` filters after the window functions. `derived`: the rows come from a relation and are already of
    one interval. `beside`: the statement has other parts, so an interval may have no record of this one.
    """

    items: list[tuple[str | None, Expr]]
    where: Expr | None
    group: list[Expr] | None
    having: Expr | None
    order: list[OrderItem]
    limit: int | None
    distinct: bool
    window: WindowSpec | None
    start: TextPosition
    offset: int = 0
    derived: bool = False
    beside: bool = False
    qualify: Expr | None = None


def expressions(select: Select) -> list[Expr]:
    clauses = [select.where, *(select.group or ()), select.having, select.qualify]
    return [
        *(expr for _, expr in select.items),
        *(expr for expr in clauses if expr is not None),
        *(item.expr for item in select.order),
    ]


def early_expressions(select: Select) -> list[Expr]:
    """Return the expressions that are computed on single rows in any query."""
    return [*([] if select.where is None else [select.where]), *(select.group or [])]


def late_expressions(select: Select) -> list[Expr]:
    having = [each for each in (select.having, select.qualify) if each is not None]
    return [expr for _, expr in select.items] + having + [item.expr for item in select.order]

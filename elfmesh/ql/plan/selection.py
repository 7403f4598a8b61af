"""One SELECT between the parser and the analysis: plain data."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import Place
from elfmesh.ql.plan.statement import OrderItem, Window


@dataclass(slots=True)
class Select:
    """The clauses of a SELECT in our own nodes, names not yet resolved.

    `qualify` filters after the functions over rows. `derived`: the rows are a relation's, of one interval
    already. `beside`: it stands beside others in a statement, so an interval may have no record of its own.
    """

    items: list[tuple[str | None, Expr]]
    where: Expr | None
    group: list[Expr] | None
    having: Expr | None
    order: list[OrderItem]
    limit: int | None
    distinct: bool
    window: Window | None
    start: Place
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

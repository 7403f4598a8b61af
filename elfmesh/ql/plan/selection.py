"""One SELECT between the parser and the analysis: plain data."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import Place
from elfmesh.ql.plan.statement import OrderItem, Window


@dataclass(slots=True)
class Select:
    """The clauses of a SELECT in our own nodes, names not yet resolved.

    Attributes:
        window: of the statement; None: what GROUP BY says.
        qualify: what rows must meet after the functions over them.
        derived: the rows are those of a relation, of one interval already: nothing is dated any more.
        beside: it stands beside others in a statement: there are intervals without any record of its own.
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

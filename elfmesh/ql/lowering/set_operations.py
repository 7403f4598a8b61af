"""Lowering of INTERSECT and EXCEPT: the rows of both queries, each with its side, grouped by all columns.

    a INTERSECT b      SELECT c FROM (a with side 0 UNION ALL b with side 1) GROUP BY c
                       HAVING min(side) = 0 AND max(side) = 1
    a EXCEPT b         the same HAVING max(side) = 0

The groups give the standard's equality (nulls are equal), and the union the common type of the columns. With
ALL, the occurrences of a row are numbered on each side and compared with their numbers: of n and m rows,
INTERSECT ALL keeps the lesser, EXCEPT ALL keeps n - m.
"""

from __future__ import annotations

from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, FieldRef, Literal, Over
from elfmesh.ql.lowering.lowering import Lowering
from elfmesh.ql.plan.draft_types import INTERSECT, UnionDraft
from elfmesh.ql.plan.relation import Ranked, Union
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import Select

SIDE, NUMBER = "#side", "#number"
"""Columns beside those of the queries: 0 or 1, and which of equal rows of a side it is."""


def set_operation(plan: Lowering, draft: UnionDraft) -> Relation:
    """Plan INTERSECT or EXCEPT at the root, over the rows of both queries."""
    sides = tuple(_side(plan, plan.query(each), side) for side, each in enumerate(draft.sources))
    rows: Relation = Union((*draft.columns, SIDE), draft.at, sides)
    keys: list[Expr] = [FieldRef(name, True, at=draft.at) for name in draft.columns]
    items: list[tuple[str | None, Expr]] = list(zip(draft.columns, keys, strict=True))
    if not draft.distinct:
        side = FieldRef(SIDE, True)
        number = Over("row_number", (), (*keys, side), (), (), at=draft.at)
        rows = Ranked((*rows.columns, NUMBER), draft.at, rows, ((NUMBER, number),))
        keys = [*keys, FieldRef(NUMBER, True)]
    having = _equals("max", 0)
    if draft.kind == INTERSECT:
        having = Call("and", (_equals("min", 0), _equals("max", 1)))
    return plan.over(rows, Select(items, None, keys, having, [], None, False, None, draft.at))


def _side(plan: Lowering, source: Relation, side: int) -> Relation:
    items: list[tuple[str | None, Expr]] = [(name, FieldRef(name, True)) for name in source.columns]
    items.append((SIDE, Literal("bigint", side)))
    return plan.over(source, Select(items, None, None, None, [], None, False, None, source.at))


def _equals(kind: str, side: int) -> Expr:
    return Call("=", (Aggregate(kind, (FieldRef(SIDE, True),)), Literal("bigint", side)))

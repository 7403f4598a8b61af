"""Lowering of explode(list) in a select list: a SELECT of the list, and one row for each of its elements."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, FieldRef, Literal, Over, walk
from elfmesh.ql.expressions.refusals import GENERATORS
from elfmesh.ql.lowering.lowering import Lowering
from elfmesh.ql.plan.draft_types import SelectDraft
from elfmesh.ql.plan.elements import ElementOrder, Elements
from elfmesh.ql.plan.relation import Exploded
from elfmesh.ql.plan.relation import made as made_column
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import Select, early_expressions
from elfmesh.ql.plan.statement import OrderItem

MADE = made_column(0)
HINT = "Write SELECT ... FROM (SELECT explode(x) AS e, y FROM stream) t."


def explodes(draft: SelectDraft) -> bool:
    return any(isinstance(expr, Call) and expr.name in GENERATORS for _, expr in draft.select.items)


def exploded(plan: Lowering, draft: SelectDraft) -> Relation:
    """Plan a SELECT with one explode(list), alone in its item, among plain expressions."""
    select, found = draft.select, [expr for _, expr in draft.select.items if _is_generator(expr)]
    inner = [child for expr in found for child in expr.children]
    others = [expr for _, expr in select.items if not _is_generator(expr)]
    for expr in (*inner, *others, *early_expressions(select), *(item.expr for item in select.order)):
        for node in walk(expr):
            if isinstance(node, Aggregate | Over) or _is_generator(node):
                raise plan.origin.error("explode can be combined only with plain expressions", node.at, HINT)
    if len(found) > 1 or select.group is not None or select.having is not None:
        raise plan.origin.error("one explode in a SELECT without GROUP BY", found[-1].at, HINT)
    made = found[0]
    assert isinstance(made, Call)
    items: list[tuple[str | None, Expr]] = [(f"#{at}", expr) for at, expr in enumerate((*inner, *others))]
    below = plan.select(draft, replace(select, items=items, order=[], limit=None, offset=0, distinct=False))
    places = iter(range(1, len(items)))
    columns = tuple(MADE if _is_generator(expr) else f"#{next(places)}" for _, expr in select.items)
    call = Elements(made.name, 1, ElementOrder.NONE, False, made.name == "explode_outer", made.at)
    rows = Exploded(draft.columns, draft.at, below, FieldRef("#0", True, at=made.at), call, columns)
    if not (select.order or select.distinct or select.limit is not None or select.offset):
        return rows
    whole: list[tuple[str | None, Expr]] = [(name, FieldRef(name, True)) for name in rows.columns]
    order = [replace(item, expr=_output(plan, draft, item)) for item in select.order]
    above = Select(
        whole, None, None, None, order, select.limit, select.distinct, None, select.start, select.offset
    )
    return plan.over(rows, above)


def _output(plan: Lowering, draft: SelectDraft, item: OrderItem) -> Expr:
    if isinstance(item.expr, Literal) and item.expr.kind == "bigint":
        number = item.expr.value
        assert isinstance(number, int)
        if not 1 <= number <= len(draft.columns):
            hint = f"The query has {len(draft.columns)} columns."
            raise plan.origin.error(f"there is no column {number}", item.expr.at, hint)
        return FieldRef(draft.columns[number - 1], True, at=item.expr.at)
    for name, (_, expr) in zip(draft.columns, draft.select.items, strict=True):
        named = isinstance(item.expr, FieldRef) and item.expr.path.lower() == name.lower()
        if named or item.expr == expr:
            return FieldRef(name, True, at=item.expr.at)
    raise plan.origin.error(
        "with explode, ORDER BY can use only columns of the select list", item.expr.at, HINT
    )


def _is_generator(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.name in GENERATORS

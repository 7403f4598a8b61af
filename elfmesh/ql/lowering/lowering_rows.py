"""Lowering of GROUPING SETS and window functions: an inner SELECT, an operation on its rows, an outer SELECT.

The inner SELECT has the expressions that the operation and the select list need, as columns #0, #1, ... The
outer SELECT has the select list over these columns, DISTINCT, ORDER BY and LIMIT. Aliases and column numbers
are resolved before the split.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from elfmesh.ql.expressions.aggregates import BY_TIME, NULL
from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Duration,
    Expr,
    FieldRef,
    Lambda,
    Literal,
    Over,
    PythonCall,
    Scalar,
    Star,
    WindowBound,
    WindowCall,
    free_parameters,
    place_of,
    rewrite,
    walk,
)
from elfmesh.ql.expressions.refusals import GROUPING
from elfmesh.ql.lowering.lowering import Lowering
from elfmesh.ql.plan.draft_types import SelectDraft
from elfmesh.ql.plan.names import SelectItem, SelectNames
from elfmesh.ql.plan.relation import ROW, Framed, JoinKey, JoinRelation, Ranked, Union
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import Select, late_expressions
from elfmesh.ql.plan.statement import OrderItem


class _Below(Struct):
    """Columns of the inner SELECT; `time` is the field of their event time, if any."""

    keys: Sequence[Expr] = ()
    """With several groupings: the expressions that are null in the rows of some of them, including
    constants."""
    time: FieldRef | None = None
    exprs: list[Expr] = field(default_factory=list)
    overs: list[Over] = field(default_factory=list)

    def column(self, expr: Expr) -> FieldRef:
        if expr not in self.exprs:
            self.exprs.append(expr)
        return FieldRef(f"#{self.exprs.index(expr)}", True, at=expr.at)

    def lifted(self, expr: Expr) -> Expr:
        if isinstance(expr, Over):
            count = len(expr.args)
            args = tuple(self._argument(arg, expr.kind == "aggregate") for arg in expr.args)
            over = expr.with_children((*args, *(self._argument(child) for child in expr.children[count:])))
            assert isinstance(over, Over)
            if over not in self.overs:
                self.overs.append(over)
            return FieldRef(f"#w{self.overs.index(over)}", True, at=expr.at)
        if any(isinstance(node, Over) for node in walk(expr)) or self._is_above(expr) or _is_inside(expr):
            return expr.with_children(tuple(self.lifted(child) for child in expr.children))
        constant = isinstance(expr, Literal | Duration | Scalar) and expr not in self.keys
        return expr if constant else self.column(expr)

    def _is_above(self, expr: Expr) -> bool:
        """With several groupings, return whether an expression is computed from the columns of all groupings.

        A key that is null in all rows of a grouping has no type there, so `abs` of it would have another
        type.
        """
        if not self.keys or expr in self.keys or not isinstance(expr, Call) or isinstance(expr, PythonCall):
            return False
        return expr.name not in GROUPING and not any(isinstance(each, _BELOW) for each in expr.children)

    def _argument(self, expr: Expr, over: bool = False) -> Expr:
        if over:
            if isinstance(expr, Aggregate) and expr.kind in BY_TIME and self.time is not None:
                flag = expr.args[1] if len(expr.args) > 1 else Literal("bool", False)
                expr = replace(expr, args=(expr.args[0], flag, self.time))
            return expr.with_children(tuple(self._argument(child) for child in expr.children))
        return expr if isinstance(expr, Literal) else self.column(expr)

    def select(self, select: Select) -> Select:
        items: list[tuple[str | None, Expr]] = [(f"#{at}", expr) for at, expr in enumerate(self.exprs)]
        items = items or [("#0", Literal("bigint", 1))]
        return replace(select, items=items, order=[], limit=None, offset=0, distinct=False, qualify=None)


def _is_inside(expr: Expr) -> bool:
    """Return whether an expression is a lambda function, or has a value only inside of one."""
    return isinstance(expr, Lambda) or bool(free_parameters(expr))


_BELOW = (WindowCall, Duration, Star)
"""Nodes that are valid only in a SELECT over records."""


def over_rows(plan: Lowering, draft: SelectDraft) -> Relation:
    """Plan a SELECT with window functions, or with several groupings."""
    select = _resolved(plan, draft)
    keys = () if draft.sets is None else select.group or ()
    below = _Below(keys, None if _is_grouped(select) else plan.time_of(draft))
    items: list[tuple[str | None, Expr]] = [
        (name, below.lifted(expr)) for name, (_, expr) in zip(draft.columns, select.items, strict=True)
    ]
    order = [replace(item, expr=below.lifted(item.expr)) for item in select.order]
    qualify = None if select.qualify is None else below.lifted(select.qualify)
    whole = below.select(select)
    rows = plan.select(draft, whole) if draft.sets is None else _grouping_sets(plan, draft, whole)
    source = _with_aggregates(plan, rows, below)
    source = _with_frames(plan, source, below)
    ranked = tuple((f"#w{at}", over) for at, over in enumerate(below.overs) if over.kind != "aggregate")
    if ranked:
        source = Ranked((*source.columns, *(name for name, _ in ranked)), draft.at, source, ranked)
    return plan.over(source, replace(_above(select, items, order), where=qualify))


def _grouping_sets(plan: Lowering, draft: SelectDraft, select: Select) -> Relation:
    assert draft.sets is not None
    meant = dict(zip(draft.select.group or [], select.group or [], strict=True))
    sets = [[meant[expr] for expr in one] for one in draft.sets]
    sources = tuple(plan.select(draft, _grouped(plan, select, one)) for one in sets)
    return Union(sources[0].columns, draft.at, sources)


def _grouped(plan: Lowering, select: Select, chosen: list[Expr]) -> Select:
    """Return the SELECT for one grouping: keys that it does not group by are null, outside aggregates.

    A key is a value of the records. A key that is grouped by is unchanged, even if a key inside it is null.
    """
    every = list(dict.fromkeys(select.group or []))
    group = [expr for expr in every if expr in chosen or _is_window(expr)]

    def bits(node: Call) -> Expr:
        args = node.args or tuple(every)
        if node.name == "grouping_id" and args != tuple(every):
            hint = "Write grouping_id(), or all keys in their order."
            raise plan.origin.error("grouping_id takes all columns of GROUP BY", place_of(node), hint)
        if any(arg not in every for arg in args):
            hint = "Write grouping(a), where GROUP BY ROLLUP(a, b) has a."
            raise plan.origin.error("grouping takes a column of GROUP BY", place_of(node), hint)
        value = sum((arg not in group) << at for at, arg in enumerate(reversed(args)))
        return Literal("bigint", value, at=node.at)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Aggregate) or node in group:
            return node
        if isinstance(node, Call) and node.name in GROUPING:
            return bits(node)
        return replace(NULL, at=node.at) if node in every else None

    items = [(name, rewrite(expr, change)) for name, expr in select.items]
    having = None if select.having is None else rewrite(select.having, change)
    return replace(select, items=items, group=group, having=having)


def _is_grouped(select: Select) -> bool:
    overs = [node for expr in late_expressions(select) for node in walk(expr) if isinstance(node, Over)]
    own = {id(over.args[0]) for over in overs if over.kind == "aggregate"}
    nodes = [node for expr in late_expressions(select) for node in walk(expr)]
    return select.group is not None or any(isinstance(n, Aggregate) and id(n) not in own for n in nodes)


def _is_window(expr: Expr) -> bool:
    return isinstance(expr, WindowCall | WindowBound) or any(
        isinstance(child, WindowCall) for child in expr.children
    )


def _above(select: Select, items: list[tuple[str | None, Expr]], order: list[OrderItem]) -> Select:
    return Select(
        items, None, None, None, order, select.limit, select.distinct, None, select.start, select.offset
    )


def _resolved(plan: Lowering, draft: SelectDraft) -> Select:
    select = draft.select
    named = zip(draft.columns, select.items, strict=True)
    items = [SelectItem(name, expr, given is not None) for name, (given, expr) in named]
    names = SelectNames(plan.origin, items, select.where)

    def numbered(expr: Expr) -> Expr | None:
        if not isinstance(expr, Literal) or expr.kind != "bigint":
            return None
        assert isinstance(expr.value, int)
        if not 1 <= expr.value <= len(items):
            raise plan.origin.error(
                f"there is no column {expr.value}", expr.at, f"The query has {len(items)} columns."
            )
        return items[expr.value - 1].expr

    group = None
    if select.group is not None:
        group = [numbered(expr) or names.in_group_by(expr) for expr in select.group]
    having = None if select.having is None else names.in_having(select.having, group or [])
    order = [replace(item, expr=numbered(item.expr) or names.in_order_by(item.expr)) for item in select.order]
    qualify = None if select.qualify is None else names.in_order_by(select.qualify)
    return replace(select, group=group, having=having, order=order, qualify=qualify)


def _with_aggregates(plan: Lowering, rows: Relation, below: _Below) -> Relation:
    source = rows
    whole = [(f"#w{at}", o) for at, o in enumerate(below.overs) if o.kind == "aggregate" and not o.order]
    for partition in dict.fromkeys(over.partition for _, over in whole):
        mine = [(name, over.args[0]) for name, over in whole if over.partition == partition]
        varied = [expr for expr in partition if not isinstance(expr, Literal)]
        keys: list[tuple[str | None, Expr]] = [
            (f"#p{mine[0][0]}.{at}", expr) for at, expr in enumerate(varied)
        ]
        group = varied or None
        select = Select([*keys, *mine], None, group, None, [], None, False, None, rows.at)
        totals = plan.over(rows, select)
        joined = tuple(JoinKey(expr, FieldRef(str(name), True), null_safe=True) for name, expr in keys)
        columns = (*source.columns, *totals.columns)
        source = JoinRelation(columns, rows.at, "left", source, totals, joined, None)
    return source


def _with_frames(plan: Lowering, rows: Relation, below: _Below) -> Relation:
    source = rows
    framed = [(f"#w{at}", o) for at, o in enumerate(below.overs) if o.kind == "aggregate" and o.order]
    for _, first in framed:
        mine = [(name, over) for name, over in framed if replace(over, args=first.args) == first]
        if mine[0][0] in source.columns:
            continue  # done with an aggregate of the same frame
        items: list[tuple[str | None, Expr]] = [(name, over.args[0]) for name, over in mine]
        key = FieldRef(ROW, True)
        select = Select([(ROW, key), *items], None, [key], None, [], None, False, None, rows.at)
        wider = replace(rows, columns=(*rows.columns, ROW))
        statement = plan.over(wider, select).statement
        zero = tuple(isinstance(call, Aggregate) and "count" in call.kind for _, call in items)
        columns = (*source.columns, *(name for name, _ in mine))
        source = Framed(columns, rows.at, source, first, statement, zero)
    return source

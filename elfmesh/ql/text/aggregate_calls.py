"""Translation of sqlglot's aggregate calls: argument counts, DISTINCT, IGNORE NULLS and WITHIN GROUP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.aggregates import AGGREGATES, COLLECT_DEFAULT, ORDERED
from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, Literal, Over, Star, walk
from elfmesh.ql.plan.scope import RECORD
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.text.draft_order import is_all

_SHARES = ("percentile_cont", "percentile_disc")
"""Aggregates that take their values from WITHIN GROUP (ORDER BY x)."""
_LISTS = ("listagg", "string_agg")
"""Aggregates that take the order of their values from WITHIN GROUP."""


def aggregate(translator: Translating, name: str, node: exp.Anonymous) -> Expr:
    place, given = translator.place(node), node.expressions
    distinct = len(given) == 1 and isinstance(given[0], exp.Distinct)
    nodes = given[0].expressions if distinct else given
    if any(isinstance(arg, exp.Column) and isinstance(arg.this, exp.Star) for arg in nodes):
        hint = "Write count(*), or name columns: count(a, b) counts records that have both."
        raise translator.error(node, f"{name}(t.*) is not supported", hint)
    ignore = len(nodes) == 1 and isinstance(nodes[0], exp.IgnoreNulls)
    with translator.scope.within(RECORD):
        args = tuple(translator.expr(arg.this if ignore else arg) for arg in nodes)
    held = next((each for arg in args for each in walk(arg) if isinstance(each, Over)), None)
    if held is not None:
        raise translator.error(
            node, f"{name} cannot contain a window function",
            f"Write it in a subquery: SELECT {name}(n) FROM (SELECT rank() OVER (...) AS n ...).",
        )  # fmt: skip
    kind, form = "avg" if name == "mean" else name, AGGREGATES[name]
    if kind == "count" and any(isinstance(arg, Star) for arg in args):
        starred = any(isinstance(arg, Star) and arg.without for arg in args)
        if len(args) > 1 or distinct or starred:
            raise translator.error(node, "count takes * alone", "Write count(*) or count(DISTINCT x).")
        return Aggregate(kind, (), at=place)
    if any(isinstance(arg, Star) for arg in args):
        raise translator.error(node, f"{name}(*) is not valid", f"Write {form.signature}.")
    shares = name in _SHARES
    count = len(args) + shares
    if count < form.least or (form.most is not None and count > (2 if shares else form.most)):
        raise translator.error(
            node,
            f"{name} does not take {len(args)} argument{'s' * (len(args) != 1)}",
            f"Write {form.signature}.",
        )
    if shares and not isinstance(node.parent, exp.WithinGroup):
        raise translator.error(node, f"{name} needs WITHIN GROUP", f"Write {form.signature}.")
    if distinct and not form.distinct:
        hint = f"Write {form.signature} over a query in brackets: FROM (SELECT DISTINCT k, x FROM s) q."
        raise translator.error(node, f"{name}(DISTINCT) is not supported", hint)
    made = Aggregate(kind, args, distinct, at=place)
    return _ignoring(translator, made, node) if ignore else made


def nulls(translator: Translating, node: exp.IgnoreNulls | exp.RespectNulls) -> Expr:
    made = translator.expr(node.this)
    if not isinstance(made, Aggregate):
        raise translator.error(node, "IGNORE NULLS belongs to first or last", "Write first(x) IGNORE NULLS.")
    return _ignoring(translator, made, node) if isinstance(node, exp.IgnoreNulls) else made


def _ignoring(translator: Translating, made: Aggregate, node: Any) -> Expr:
    if made.kind == "any_value":
        return made
    if not made.kind.startswith(("first", "last")) or len(made.args) != 1:
        raise translator.error(
            node, "IGNORE NULLS belongs to first and last", "Other aggregates always ignore nulls."
        )
    return replace(made, args=(*made.args, Literal("bool", True)))


def within_group(translator: Translating, node: exp.WithinGroup) -> Expr:
    """Translate percentile_cont(0.9) WITHIN GROUP (ORDER BY x) or listagg(x) WITHIN GROUP (ORDER BY y)."""
    made, order = translator.expr(node.this), node.expression.expressions
    if any(is_all(each.this) for each in order):
        raise translator.error(node, "ORDER BY ALL belongs to a whole query", "Write ORDER BY a, b.")
    with translator.scope.within(RECORD):
        ordered = [translator.expr(each.this) for each in order]
    if not isinstance(made, Aggregate) or (len(order) != 1 and made.kind not in _LISTS):
        raise translator.error(node, "WITHIN GROUP takes one ORDER BY item", "Write (ORDER BY x).")
    if made.kind in _SHARES:
        falling = (Literal("bool", True),) if order[0].args.get("desc") else ()
        return replace(made, args=(ordered[0], made.args[0], *falling))
    if made.kind not in _LISTS:
        raise translator.error(
            node, f"{made.kind} does not support this ORDER BY", "listagg(x) WITHIN GROUP (ORDER BY y) can."
        )
    return _placed(translator, node, made, ordered)


def _placed(translator: Translating, node: exp.WithinGroup, made: Aggregate, ordered: list[Expr]) -> Expr:
    """Translate a listagg that orders its values by expressions; each value carries its position."""
    items = node.expression.expressions
    if made.distinct and ordered != [made.args[0]]:
        hint = "Order by what is listed, or leave DISTINCT out."
        raise translator.error(node, f"{made.kind}(DISTINCT x) can only be ordered by x", hint)
    if any(isinstance(each, Aggregate) for item in ordered for each in walk(item)):
        raise translator.error(node, "WITHIN GROUP cannot contain an aggregate", "Order by a column.")
    ways = [(bool(item.args.get("desc")), bool(item.args.get("nulls_first"))) for item in items]
    option = "".join(("d" if falling else "a") + ("f" if first else "l") for falling, first in ways)
    defaults = (Literal("null", None), Literal("bigint", COLLECT_DEFAULT))
    args = (*made.args, *defaults[len(made.args) - 1 :])
    assert len(args) == ORDERED
    place = Call("ordered text", (made.args[0], *ordered), option, at=made.at)
    return replace(made, args=(*args, place))

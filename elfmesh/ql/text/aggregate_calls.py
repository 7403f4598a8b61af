"""From sqlglot's calls of aggregates to ours: numbers of arguments, DISTINCT, IGNORE NULLS, WITHIN GROUP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.nodes import Aggregate, Expr, Literal, Over, Star, walk
from elfmesh.ql.plan.scope import RECORD
from elfmesh.ql.plan.translating import Translating

_SHARES = ("percentile_cont", "percentile_disc")
"""Aggregates whose values stand in WITHIN GROUP (ORDER BY x)."""


def aggregate(translator: Translating, name: str, node: exp.Anonymous) -> Expr:
    """A call of an aggregate, which may stand in WITHIN GROUP."""
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
            f"Write it in a query in brackets: SELECT {name}(n) FROM (SELECT rank() OVER (...) AS n ...).",
        )  # fmt: skip
    kind, form = "avg" if name == "mean" else name, AGGREGATES[name]
    if kind == "count" and any(isinstance(arg, Star) for arg in args):
        if len(args) > 1 or distinct:
            raise translator.error(node, "count takes * alone", "Write count(*) or count(DISTINCT x).")
        return Aggregate(kind, (), at=place)
    if any(isinstance(arg, Star) for arg in args):
        raise translator.error(node, f"{name}(*) makes no sense", f"Write {form.signature}.")
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
        raise translator.error(node, f"{name}(DISTINCT) is not supported", f"Write {form.signature}.")
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
    """`percentile_cont(0.9) WITHIN GROUP (ORDER BY x)`."""
    made, order = translator.expr(node.this), node.expression.expressions
    with translator.scope.within(RECORD):
        ordered = [translator.expr(each.this) for each in order]
    if not isinstance(made, Aggregate) or len(order) != 1:
        raise translator.error(node, "WITHIN GROUP takes one ORDER BY item", "Write (ORDER BY x).")
    item, descending = ordered[0], bool(order[0].args.get("desc"))
    if made.kind in _SHARES:
        falling = (Literal("bool", True),) if descending else ()
        return replace(made, args=(item, made.args[0], *falling))
    if made.kind not in ("listagg", "string_agg") or item != made.args[0] or descending:
        raise translator.error(
            node, f"{made.kind} cannot be ordered so", "listagg(x) WITHIN GROUP (ORDER BY x) can."
        )
    return made

"""Translation of sqlglot's aggregate calls: argument counts, DISTINCT, IGNORE NULLS and orders."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from sqlglot import exp

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.aggregates import AGGREGATES, COLLECT_DEFAULT
from elfmesh.ql.expressions.list_aggregates import LISTS, ORDERED_TEXT, ORDERED_VALUE, TEXTS, ordering
from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, Literal, Over, Star, walk
from elfmesh.ql.plan.scope import RECORD
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.text.draft_order import is_all

_SHARES = ("percentile_cont", "percentile_disc")
"""Aggregates that take their values from WITHIN GROUP (ORDER BY x)."""
_EITHER = ("approx_percentile", "percentile_approx", "mode")
"""Aggregates that take their values as first argument, or from WITHIN GROUP (ORDER BY x)."""
_ORDERED = (*LISTS, *TEXTS)
"""Aggregates whose values ORDER BY orders, inside the call or in WITHIN GROUP."""
_ORDER_HINT = "array_agg(x ORDER BY y), string_agg(x, ',' ORDER BY y) and listagg(x) WITHIN GROUP (...) can."


def aggregate(translator: Translating, name: str, node: exp.Anonymous) -> Expr:
    place, given = translator.place(node), list(node.expressions)
    order = given[-1] if given and isinstance(given[-1], exp.Order) else None
    if order is not None:
        if name not in _ORDERED:
            raise _order_refused(translator, node, name)
        given[-1] = order.this
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
    grouped, shares = isinstance(node.parent, exp.WithinGroup), name in _SHARES
    count = len(args) + (shares or (grouped and name in _EITHER))
    if count < form.least or (form.most is not None and count > (2 if shares else form.most)):
        raise translator.error(
            node,
            f"{name} does not take {len(args)} argument{'s' * (len(args) != 1)}",
            f"Write {form.signature}.",
        )
    if shares and not grouped:
        raise translator.error(node, f"{name} needs WITHIN GROUP", f"Write {form.signature}.")
    if distinct and not form.distinct:
        hint = f"Write {form.signature} over a query in brackets: FROM (SELECT DISTINCT k, x FROM s) q."
        raise translator.error(node, f"{name}(DISTINCT) is not supported", hint)
    made = Aggregate(kind, args, distinct, at=place)
    if order is not None:
        return _placed(translator, node, made, order.expressions)
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
    if not isinstance(made, Aggregate) or (len(order) != 1 and made.kind not in _ORDERED):
        raise translator.error(node, "WITHIN GROUP takes one ORDER BY item", "Write (ORDER BY x).")
    if made.kind not in (*_SHARES, *_EITHER):
        return _placed(translator, node, made, order)
    if is_all(order[0].this):
        raise _all_refused(translator, node)
    with translator.scope.within(RECORD):
        value = translator.expr(order[0].this)
    if not order[0].args.get("desc"):
        return replace(made, args=(value, *made.args))
    if made.kind in _EITHER:
        hint = "Leave DESC out; for a share of the greatest values, write 1 minus the share."
        raise translator.error(node, f"{made.kind} takes its values in ascending order", hint)
    return replace(made, args=(value, *made.args, Literal("bool", True)))


def _all_refused(translator: Translating, node: Any) -> QueryError:
    return translator.error(node, "ORDER BY ALL belongs to a whole query", "Write ORDER BY a, b.")


def _order_refused(translator: Translating, node: Any, name: str) -> QueryError:
    return translator.error(node, f"{name} does not support this ORDER BY", _ORDER_HINT)


def _placed(translator: Translating, node: Any, made: Aggregate, items: list[Any]) -> Expr:
    """Translate a list whose values ORDER BY orders; each value carries its position."""
    if made.kind not in _ORDERED:
        raise _order_refused(translator, node, made.kind)
    if ordering(made) is not None:
        raise translator.error(node, f"{made.kind} has two ORDER BY", "Write one of them.")
    if any(is_all(each.this) for each in items):
        raise _all_refused(translator, node)
    with translator.scope.within(RECORD):
        ordered = [translator.value(each.this) for each in items]
    if (made.distinct or made.kind == "collect_set") and ordered != [made.args[0]]:
        hint = "Order by what is listed, or leave DISTINCT out."
        shown = f"{made.kind}({'DISTINCT ' if made.distinct else ''}x)"
        raise translator.error(node, f"{shown} can only be ordered by x", hint)
    if any(isinstance(each, Aggregate | Over) for item in ordered for each in walk(item)):
        raise translator.error(
            node, "the ORDER BY of an aggregate cannot contain an aggregate", "Order by a column."
        )
    ways = [(bool(item.args.get("desc")), bool(item.args.get("nulls_first"))) for item in items]
    option = "".join(("d" if falling else "a") + ("f" if first else "l") for falling, first in ways)
    texts = made.kind in TEXTS
    defaults = ((Literal("null", None),) if texts else ()) + (Literal("bigint", COLLECT_DEFAULT),)
    args = (*made.args, *defaults[len(made.args) - 1 :])
    name = ORDERED_TEXT if texts else ORDERED_VALUE
    return replace(made, args=(*args, Call(name, (made.args[0], *ordered), option, at=made.at)))

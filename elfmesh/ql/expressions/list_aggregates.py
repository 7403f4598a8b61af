"""Aggregates that return lists of values, or texts joined of them: array_agg, collect_set, listagg.

A list has its least values, so the split of the records does not change it. With ORDER BY, each value is
collected as a text with a sort key before it (`functions.ordered_text`), and the least texts are the first
values.
"""

from __future__ import annotations

from elfmesh.ql.expressions.aggregates import (
    COLLECT_DEFAULT,
    COLLECT_MAX,
    Reduction,
    aggregate,
    constant,
    filtered,
    integer,
    with_parameter,
)
from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr

LISTS = ("array_agg", "collect_list", "collect_set")
TEXTS = ("listagg", "string_agg")
ORDERED_VALUE, ORDERED_TEXT = "ordered value", "ordered text"


def ordering(node: Aggregate) -> Expr | None:
    """Return the argument with the values and their sort keys, which is the last; None without ORDER BY.

    The number of arguments decides, because OVER computes arguments in columns and reads these.
    """
    return node.args[-1] if len(node.args) > (3 if node.kind in TEXTS else 2) else None


@aggregate(" ".join(LISTS), 1, 2, signature="$(x[, limit])", distinct=True)
def _collect(reduction: Reduction, node: Aggregate) -> Expr:
    limit = integer(reduction, node, 1, "the limit", (1, COLLECT_MAX))
    if (ordered := ordering(node)) is None:
        return _collected(reduction, node, limit)
    texts = Aggregate(node.kind, (ordered,), node.distinct, node.where)
    # The least value is not needed: its state has the type of the values, which the texts do not have.
    typed = reduction.state("min", filtered(node, node.args[0]))
    return Call("ordered list", (_collected(reduction, texts, limit), typed), at=node.at)


def _collected(reduction: Reduction, node: Aggregate, limit: int | None) -> Expr:
    kind = "set" if node.distinct or node.kind == "collect_set" else "collect"
    value = filtered(node, node.args[0])
    return reduction.state(with_parameter(kind, limit, COLLECT_DEFAULT), value)


@aggregate(" ".join(TEXTS), 1, 3, signature="$(x[, separator[, limit]])", distinct=True)
def _joined(reduction: Reduction, node: Aggregate) -> Expr:
    separator = constant(reduction, node, 1, "string null", "the separator")
    limit = integer(reduction, node, 2, "the limit", (1, COLLECT_MAX))
    joint = "" if separator is None or separator.value is None else str(separator.value)
    ordered = ordering(node)
    value = Call("text input", node.args[:1]) if ordered is None else ordered
    text = Aggregate(node.kind, (value,), node.distinct, node.where)
    how = "joined list" if ordered is None else "joined ordered list"
    return Call(how, (_collected(reduction, text, limit),), joint, at=node.at)

"""Aggregates in the parse tree: where an expression contains them, and their values over no rows."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.refusals import MARK

_COUNTS = ("count", "count_if", "approx_count_distinct")
_LISTS = ("array_agg", "collect_list", "collect_set", "approx_top_k")


def is_aggregate(name: str) -> bool:
    return name.removeprefix(MARK) in AGGREGATES


def aggregate_calls(value: exp.Expr) -> Iterator[exp.Expr]:
    if is_aggregate(_function(value)):
        yield value
        return
    for child in list(value.iter_expressions()):
        yield from aggregate_calls(child)


def over_nothing(call: exp.Expr, column: exp.Expr) -> exp.Expr | None:
    """Return the value of an aggregate over no rows.

    Returns None for a sketch, whose value there is not a constant.
    """
    name = _function(call).removeprefix(MARK)
    if "sketch" in name or name.endswith(("union_agg", "merge_agg_double")):
        return None
    if name not in (*_COUNTS, *_LISTS):
        return column
    empty = exp.Literal.number(0) if name in _COUNTS else exp.Anonymous(this=f"{MARK}array")
    return exp.Anonymous(this=f"{MARK}coalesce", expressions=[column, empty])


def _function(node: exp.Expr) -> str:
    while isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    return str(node.name) if isinstance(node, exp.Anonymous) else ""

"""Translation of LIKE and ILIKE, with ESCAPE, ANY, SOME and ALL, to calls."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Call, Expr
from elfmesh.ql.plan.translating import Translating

_SEVERAL = "Write x LIKE ANY ('a%', 'b%'), or LIKE ALL."


def like(translator: Translating, node: exp.Like | exp.ILike, escape: str = "\\") -> Expr:
    """Return the condition that a string matches one pattern, any of several, or all of them."""
    given = node.expression
    if isinstance(given, exp.Any | exp.All):
        return _several(translator, node, escape)
    if isinstance(given, exp.Tuple):
        raise translator.error(node, "LIKE takes one pattern", _SEVERAL)
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    args = (translator.expr(node.this), translator.expr(given))
    call: Expr = Call(name, args, escape, at=translator.place(node))
    return Call("not", (call,), at=call.at) if node.args.get("negate") else call


def _several(translator: Translating, node: exp.Like | exp.ILike, escape: str) -> Expr:
    given = node.expression.this
    patterns = given.expressions if isinstance(given, exp.Tuple) else [given.unnest()]
    if not patterns or isinstance(patterns[0], exp.Query):
        found = "and no query" if patterns else "at least one"
        raise translator.error(node, f"LIKE takes patterns, {found}", _SEVERAL)
    joined = "or" if isinstance(node.expression, exp.Any) else "and"
    calls = [like(translator, type(node)(**{**node.args, "expression": each}), escape) for each in patterns]
    return reduce(lambda left, right: Call(joined, (left, right), at=left.at), calls)


def escaped(translator: Translating, node: exp.Escape) -> Expr:
    escape = node.expression
    if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.name) == 1):
        raise translator.error(node, "ESCAPE takes one character", "Write LIKE 'a!%' ESCAPE '!'.")
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise translator.error(node, "ESCAPE belongs to LIKE", "Write LIKE 'a!%' ESCAPE '!'.")
    return like(translator, node.this, escape.name)

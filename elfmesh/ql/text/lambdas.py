"""Translation of lambda functions and their parameters: transform(a, (x, i) -> x + i)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Expr,
    Lambda,
    Over,
    Parameter,
    PythonCall,
    free_parameters,
    walk,
)
from elfmesh.ql.expressions.refusals import GENERATORS, GROUPING
from elfmesh.ql.expressions.registry import Function
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.translating import Translating

_OUTSIDE = "Compute it outside of the lambda function, or write explode(x) in a subquery."


def call_argument(translator: Translating, function: Function, at: int, node: Any) -> Expr:
    """Translate an argument of a function, which is a lambda function where the function takes one."""
    counts = function.lambdas.get(at)
    if counts is None:
        return translator.expr(node)
    if not isinstance(node, exp.Lambda):
        return Lambda(
            (), translator.value(node), at=translator.place(node)
        )  # the same value for each element
    names = tuple(each.name.lower() for each in node.expressions)
    if len(names) not in counts:
        wanted = " or ".join(map(str, counts))
        plural = "s" if counts != (1,) else ""
        message = (
            f"argument {at + 1} of {function.name} must be a lambda function of {wanted} parameter{plural}"
        )
        raise translator.error(node, message, f"Write {function.signature}.")
    if len(set(names)) < len(names):
        raise translator.error(node, "two parameters have the same name", "Rename one of them.")
    if (query := node.this.find(exp.Query)) is not None:
        raise translator.error(query, "a lambda function contains a subquery", _OUTSIDE)
    with translator.scope.inside(names):
        body = translator.value(node.this)
    for each in walk(body):
        if not isinstance(each, Aggregate | Over | PythonCall) and not (
            isinstance(each, Call) and each.name in (*GENERATORS, *GROUPING)
        ):
            continue
        if free_parameters(each):
            shown = (
                "OVER" if isinstance(each, Over) else each.kind if isinstance(each, Aggregate) else each.name
            )
            raise translator.error(node, f"{shown} cannot use the parameter of a lambda function", _OUTSIDE)
    return Lambda(names, body, at=translator.place(node))


def parameter(translator: Translating, parts: Sequence[str], at: TextPosition) -> Expr | None:
    """Return the parameter, or the field of one, that a path names; None if it names none."""
    name = parts[0].lower()
    if name not in translator.scope.parameters:
        return None
    found: Expr = Parameter(name, at=at)
    for field in parts[1:]:
        found = Call("field of", (found,), field, at=at)
    return found

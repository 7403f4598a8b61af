"""Check of the constants in calls (patterns, formats) when the text is parsed.

Each call is compiled once, with null for every field. Without this check, a pattern that cannot be compiled
would make every record an error. A call with nulls is valid unless its constants are invalid.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import Call, Duration, Expr, Lambda, Literal, walk
from elfmesh.ql.expressions.operators import OPERATORS
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.functions.compiler import Compiler

_NULL = Literal("null", None)


def check_constants(origin: SourceText, exprs: Iterable[Expr]) -> None:
    """Compile every call that has a constant string argument, with null for all fields. Raises QueryError."""
    compiler = Compiler({}, origin)
    for expr in exprs:
        for node in walk(expr):
            takes_lambda = any(isinstance(arg, Lambda) for arg in node.children)
            if takes_lambda or type(node) is not Call or not _is_function(node):
                continue
            if any(_has_text(arg) for arg in node.args):
                args = tuple(arg if _is_constant(arg) else _NULL for arg in node.args)
                compiler.step(replace(node, args=args))


def _has_text(expr: Expr) -> bool:
    return _is_constant(expr) and any(
        isinstance(node, Literal) and node.kind == "string" for node in walk(expr)
    )


def _is_constant(expr: Expr) -> bool:
    return all(
        isinstance(node, Literal | Duration)
        or (type(node) is Call and _is_function(node) and bool(node.args))  # without arguments: now()
        for node in walk(expr)
    )


def _is_function(call: Call) -> bool:
    return call.name in FUNCTIONS or call.name in OPERATORS or call.name in ("cast", "try_cast")

"""Dotted names in the parse tree: `a.b.c`, `a['b']`, and mixtures of both."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


def dotted_parts(node: Any) -> tuple[list[str], bool] | None:
    """Return the names of a dotted path, and whether it can only be a field; None if it is not a path."""
    if isinstance(node, exp.Column):
        if isinstance(node.this, exp.Star):
            return None
        return [str(part.name) for part in node.parts], any(part.args.get("quoted") for part in node.parts)
    if isinstance(node, exp.Identifier):
        return [node.name], bool(node.args.get("quoted"))
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        base = dotted_parts(node.this)
        return None if base is None else ([*base[0], node.expression.name], base[1])
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        base, index = dotted_parts(node.this), node.expressions[0]
        if base is not None and isinstance(index, exp.Literal) and index.is_string:
            return [*base[0], index.name], True
    return None

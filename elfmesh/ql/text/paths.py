"""Dotted names in the parse tree: `a.b.c`, `a['b']`, and mixtures of both; names of the fields of structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
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


def with_field_names(name: str, nodes: Sequence[Any]) -> tuple[Sequence[Any], str]:
    """Return the arguments of a call without AS, and the option with the names of the fields they become.

    As in Spark, a field has the last name of a path, and is numbered if the argument is no path.
    """
    if name not in ("struct", "arrays_zip"):
        return nodes, ""
    names, values = [], []
    for at, node in enumerate(nodes):
        aliased = name == "struct" and isinstance(node, exp.Alias)
        path = dotted_parts(node)
        number = f"col{at + 1}" if name == "struct" else str(at)
        names.append(node.alias if aliased else number if path is None else path[0][-1])
        values.append(node.this if aliased else node)
    return values, msgspec.json.encode(names).decode()

"""Translation of the select list: each item as a node with its output name."""

from __future__ import annotations

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Star, WindowBound
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.names import dropped_by
from elfmesh.ql.plan.scope import ITEM
from elfmesh.ql.text.paths import dotted_parts
from elfmesh.ql.text.translate import Translator


def read_items(
    tree: exp.Select, translator: Translator, stars: list[TextPosition]
) -> list[tuple[str | None, Expr]]:
    """Return the items with their names. Positions of `*` with unknown columns are added to `stars`."""
    with translator.scope.within(ITEM):
        return _read_items(tree, translator, stars)


def _read_items(
    tree: exp.Select, translator: Translator, stars: list[TextPosition]
) -> list[tuple[str | None, Expr]]:
    scope = translator.scope
    schemaless = not scope.joined and scope.inputs[0].columns is None
    items: list[tuple[str | None, Expr]] = []
    for node in tree.expressions:
        if isinstance(node, exp.Alias):
            expr = translator.expr(node.this)
            if isinstance(expr, Star):
                raise translator.error(
                    node, "* is not a value and cannot have a name", "Write * alone, or name a field."
                )
            items.append((node.alias, expr))
            scope.define(node.alias, expr)
            continue
        expr = translator.expr(node)
        qualifier = node.table if isinstance(node, exp.Column) else ""
        if unlisted := isinstance(expr, Star) and scope.is_open(qualifier):
            stars.append(translator.place(node))
        if isinstance(expr, WindowBound) and node.name.lower() == expr.side:
            items.append((expr.side, expr))  # window.start is named by its last part, like any field
        elif schemaless and (unlisted or not isinstance(expr, Star)):
            items.append((None, expr))
        elif isinstance(expr, Star):
            columns = _columns(translator, qualifier, translator.place(node))
            dropped = dropped_by(expr, [name for name, _ in columns], scope.error)
            items += [each for at, each in enumerate(columns) if at not in dropped]
        elif isinstance(expr, FieldRef):
            plain = scope.plain(expr.path)
            one = next((one for one in scope.inputs if one.find(plain)), None)
            items.append((plain if one is not None else plain.rpartition(".")[2], expr))
        elif isinstance(node, exp.Column) and translator.common.find(node.name, scope.inputs) is not None:
            items.append((node.name, expr))  # of a FULL JOIN
        elif isinstance(expr, Call) and expr.name == "field of":
            items.append((expr.option if dotted_parts(node) else None, expr))
        else:
            items.append((None, expr))
    return items


def _columns(translator: Translator, qualifier: str, at: TextPosition) -> list[tuple[str, Expr]]:
    """Return the columns of `*` or `input.*` with their names."""
    scope = translator.scope
    if qualifier or not translator.common.joins:
        return [(scope.plain(each.path), each) for each in scope.stars(qualifier, at)]
    own = [
        [(scope.plain(each.path), each) for each in scope.stars(one.name, at)] if not one.hidden else []
        for one in scope.inputs
    ]
    return translator.common.columns(scope.inputs, own)

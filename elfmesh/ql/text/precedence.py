"""Regrouping of operators in the parse tree by Spark's precedence.

sqlglot gives `&`, `^`, `|`, `||` and the shifts one level, puts `=` below `<`, and lets IS, IN, LIKE and
BETWEEN bind tighter than comparisons. Spark's levels are, the tightest first (its grammar,
`valueExpression`):

    * / % DIV   + - ||   << >>   &   ^   |   = <> < <= > >= <=>   IS IN LIKE RLIKE BETWEEN   NOT   AND   OR

The tree contains the parentheses, so the operands of a chain are in the order of the text. Each chain is
flattened and grouped again.
"""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from elfmesh.ql.expressions.text_source import SourceText

_LEVELS: dict[type[exp.Expr], int] = {
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod, exp.IntDiv), 7),
    **dict.fromkeys((exp.Add, exp.Sub, exp.DPipe), 6),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), 5),
    exp.BitwiseAnd: 4, exp.BitwiseXor: 3, exp.BitwiseOr: 2,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), 1),
}  # fmt: skip
_COMPARISON = 1
_OPEN: dict[type[exp.Expr], str] = {
    exp.Like: "expression", exp.ILike: "expression", exp.RegexpLike: "expression",
    exp.NullSafeNEQ: "expression", exp.Between: "high",
}  # fmt: skip
"""Predicates whose last operand extends as far as possible, with the name of that operand."""
_CLOSED = (exp.Is, exp.In, exp.Escape)

Chain: TypeAlias = list[tuple[str, exp.Expr]]
"""Operands, operators and predicates in the order of the text; a predicate includes its negation."""


def regrouped(origin: SourceText, tree: exp.Query) -> exp.Query:
    """Group every chain of operators as Spark does, in place. Cost: linear.

    Raises:
        QueryError: an operator or predicate follows a predicate, which ends a chain.
    """
    lists: dict[tuple[int, str], tuple[exp.Expr, list[exp.Expr]]] = {}
    for node in [each for each in tree.walk() if _is_link(each) and not _is_inside(each)]:
        parent, key, index = node.parent, node.arg_key, node.index
        assert parent is not None
        assert key is not None
        chain: Chain = []
        _flatten(node, chain)
        chain.reverse()
        grouped = _grouped(chain, 0)
        if chain:
            starts = [each.meta["start"] for each in grouped.walk() if "start" in each.meta]
            message = "an operator follows a condition such as IS NULL, IN, LIKE or BETWEEN"
            hint = "Put the condition in brackets: (a IS NULL) = b."
            raise origin.error(message, min(starts, default=0), hint)
        if index is None:
            parent.set(key, grouped)
        else:  # set the whole list once, because setting one element visits all of them
            _, elements = lists.setdefault((id(parent), key), (parent, list(parent.args[key])))
            elements[index] = grouped
    for (_, key), (parent, elements) in lists.items():
        parent.set(key, elements)
    return tree


def _is_link(node: exp.Expr) -> bool:
    return type(node) in _LEVELS or type(node) in _OPEN or isinstance(node, _CLOSED)


def _is_inside(node: exp.Expr) -> bool:
    parent, key = node.parent, node.arg_key
    if isinstance(parent, exp.Not) and _is_predicate(node):
        above = parent.parent
        return above is not None and type(above) in _LEVELS
    if parent is None or not _is_link(parent):
        return False
    if type(parent) in _LEVELS or key == "this":
        return True
    return key == _OPEN.get(type(parent)) and not _ends(parent)


def _is_predicate(node: exp.Expr) -> bool:
    return type(node) in _OPEN or isinstance(node, _CLOSED)


def _ends(node: exp.Expr) -> bool:
    return isinstance(node.parent, exp.Escape) or isinstance(
        node.args.get("expression"), exp.Any | exp.All | exp.Tuple
    )


def _flatten(node: exp.Expr, chain: Chain) -> None:
    if isinstance(node, exp.Not) and _is_predicate(node.this) and type(node.parent) in _LEVELS:
        _flatten_predicate(node.this, chain, node)
    elif type(node) in _LEVELS:
        _flatten(node.this, chain)
        chain.append(("operator", node))
        _flatten(node.expression, chain)
    elif _is_predicate(node):
        _flatten_predicate(node, chain, node)
    else:
        chain.append(("operand", node))


def _flatten_predicate(node: exp.Expr, chain: Chain, outer: exp.Expr) -> None:
    inner = node.this if isinstance(node, exp.Escape) else node
    _flatten(inner.this, chain)
    last = None if isinstance(node, exp.Escape) or _ends(node) else _OPEN.get(type(node))
    chain.append(("closed" if last is None else last, outer))
    if last is not None:
        _flatten(node.args[last], chain)


def _grouped(chain: Chain, least: int) -> exp.Expr:
    """Group the front of a reversed chain as far as its operators bind at least as tightly as `least`."""
    kind, left = chain.pop()
    assert kind == "operand", kind
    while chain:
        kind, node = chain[-1]
        if kind == "operator":
            level = _LEVELS[type(node)]
            if level < least:
                break
            chain.pop()
            node.set("this", left)
            node.set("expression", _grouped(chain, level + 1))
        else:
            if least > 0:
                break
            chain.pop()
            inner = node.this if isinstance(node, exp.Not) else node
            if kind != "closed":
                inner.set(kind, _grouped(chain, _COMPARISON))
            (inner.this if isinstance(inner, exp.Escape) else inner).set("this", left)
            return node
        left = node
    return left

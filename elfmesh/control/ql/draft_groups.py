"""GROUP BY, with ROLLUP, CUBE and GROUPING SETS: from the parser's tree to the groupings that are meant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

from sqlglot import exp

from elfmesh.control.ql.nodes import Aggregate, Expr, Literal, Over, Scalar, walk
from elfmesh.control.ql.translate import Translator

SETS_MAX = 64
"""Groupings of one GROUP BY: each is a table of its own at every agent."""


_NO_KEYS = (Aggregate, Over, Scalar)


def read_groups(
    tree: exp.Select, translator: Translator, items: Sequence[tuple[str | None, Expr]]
) -> tuple[list[Expr] | None, Any]:
    """The expressions of GROUP BY, and the groupings if there are several; `items` is the select list."""
    group = tree.args.get("group")
    if group is None:
        return None, None
    if group.args.get("all") and not any(given for name, given in group.args.items() if name != "all"):
        return _all_plain(items), None
    known = {"expressions", "rollup", "cube", "grouping_sets"}
    if any(given for name, given in group.args.items() if name not in known):
        raise translator.error(group, "this form of GROUP BY is not there yet", "Write GROUP BY a, b.")
    factors: list[list[list[Expr]]] = []
    for name in ("expressions", "grouping_sets", "cube", "rollup"):
        for node in group.args.get(name) or ():
            if isinstance(node, exp.Rollup | exp.Cube) and not node.expressions:  # GROUP BY a, b WITH ROLLUP
                whole = [expr for factor in factors for expr in factor[0]]
                factors = [_sets_of(node, [[expr] for expr in whole])]
            else:
                factors.append(_sets(node, translator))
    sets: list[dict[Expr, None]] = [{}]
    for factor in factors:
        if len(factor) == 1:
            for one in sets:
                one.update(dict.fromkeys(factor[0]))
        else:
            sets = [dict.fromkeys((*one, *more)) for one in sets for more in factor]
        if len(sets) > SETS_MAX:
            raise translator.error(group, f"more than {SETS_MAX} groupings", "Write several jobs.")
    every = list(dict.fromkeys(chain.from_iterable(sets)))
    if len(sets) == 1 and all(len(factor) == 1 for factor in factors):
        return every, None
    return every, [list(one) for one in sets]


def _all_plain(items: Sequence[tuple[str | None, Expr]]) -> list[Expr] | None:
    """GROUP BY ALL: the items of the select list without an aggregate; none of them: all records are one."""
    plain = [expr for _, expr in items if not any(isinstance(node, _NO_KEYS) for node in walk(expr))]
    keys = [expr for expr in plain if not isinstance(expr, Literal)]
    return list(dict.fromkeys(keys)) or None


def _sets(node: Any, translator: Translator) -> list[list[Expr]]:
    """The groupings one element of GROUP BY stands for."""
    if isinstance(node, exp.GroupingSets):
        return [each for inner in node.expressions for each in _sets(inner, translator)]
    if isinstance(node, exp.Tuple):
        return [[translator.expr(each) for each in node.expressions]]
    if isinstance(node, exp.Rollup | exp.Cube):
        return _sets_of(node, [_sets(each, translator)[0] for each in node.expressions])
    return [[translator.expr(node)]]


def _sets_of(node: Any, parts: list[list[Expr]]) -> list[list[Expr]]:
    """The groupings of ROLLUP (all beginnings) or CUBE (all choices) of some parts."""
    if isinstance(node, exp.Rollup):
        chosen = [tuple(parts[:count]) for count in range(len(parts), -1, -1)]
    else:
        chosen = [each for count in range(len(parts), -1, -1) for each in combinations(parts, count)]
        if len(chosen) > SETS_MAX:
            chosen = chosen[: SETS_MAX + 1]
    return [list(chain.from_iterable(each)) for each in chosen]

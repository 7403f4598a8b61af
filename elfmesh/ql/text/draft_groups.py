"""Translation of GROUP BY, with ROLLUP, CUBE and GROUPING SETS, to lists of keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Expr,
    FieldRef,
    Over,
    WindowBound,
    WindowCall,
    walk,
)
from elfmesh.ql.expressions.refusals import CUBE, GROUPINGS, MARK, ROLLUP, SETS, SETS_OF
from elfmesh.ql.text.translate import Translator

SETS_MAX = 64
"""Maximum number of groupings of one GROUP BY. Every agent keeps a table for each of them."""

Sets = list[list[Expr]]


def read_groups(
    tree: exp.Select, translator: Translator, items: Sequence[tuple[str | None, Expr]]
) -> tuple[list[Expr] | None, Sets | None]:
    """Return the GROUP BY expressions, and the groupings if there are several; `items` is the select list."""
    group = tree.args.get("group")
    if group is None:
        return None, None
    if group.args.get("all") and not any(given for name, given in group.args.items() if name != "all"):
        return _all_plain(items), None
    if any(given for name, given in group.args.items() if name not in ("expressions", "rollup", "cube")):
        raise translator.error(group, "this form of GROUP BY is not supported", "Write GROUP BY a, b.")
    nodes = list(group.args.get("expressions") or ())
    factors = [_sets(node, translator) for node in nodes]
    several = any(_kind(node) for node in nodes)
    keys = list(dict.fromkeys(expr for factor in factors for one in factor for expr in one))
    behind = [node for name in ("rollup", "cube") for node in group.args.get(name) or ()]
    if behind:  # GROUP BY a, b WITH ROLLUP
        if several or len(behind) > 1:
            raise translator.error(group, "WITH ROLLUP and WITH CUBE can only follow plain keys")
        kind = ROLLUP if isinstance(behind[0], exp.Rollup) else CUBE
        factors, several = [_sets_of(kind, [[expr] for expr in keys])], True
    elif nodes and _kind(nodes[-1]) == SETS_OF:
        if any(_kind(node) for node in nodes[:-1]):
            hint = "Add a comma before it."
            raise translator.error(nodes[-1], "GROUPING SETS must come after plain keys", hint)
        factors = factors[-1:]  # the earlier ones define the keys and their order
    if not several:
        return keys, None
    sets: Sets = [[]]
    for factor in factors:
        sets = [list(dict.fromkeys((*one, *more))) for one in sets for more in factor]
        if len(sets) > SETS_MAX:
            raise translator.error(group, f"more than {SETS_MAX} groupings", "Write several jobs.")
    return keys, sets


def _all_plain(items: Sequence[tuple[str | None, Expr]]) -> list[Expr] | None:
    """Return the keys of GROUP BY ALL: the select items without an aggregate.

    No key means one group of all records.
    """
    plain = [expr for _, expr in items if not any(isinstance(node, Aggregate | Over) for node in walk(expr))]
    varied = (FieldRef, WindowBound, WindowCall)
    keys = [expr for expr in plain if any(isinstance(node, varied) for node in walk(expr))]
    return list(dict.fromkeys(keys)) if plain else None


def _kind(node: Any) -> str:
    name = str(node.this) if isinstance(node, exp.Anonymous) else ""
    kind = name.removeprefix(MARK)
    return kind if name.startswith(MARK) and kind in GROUPINGS else ""


def _sets(node: Any, translator: Translator) -> Sets:
    kind = _kind(node)
    if kind in (SETS, SETS_OF):
        return [each for inner in node.expressions for each in _sets(inner, translator)]
    if kind:
        return _sets_of(kind, [_sets(each, translator)[0] for each in node.expressions])
    if isinstance(node, exp.Tuple):
        return [[translator.expr(each) for each in node.expressions]]
    return [[translator.expr(node)]]


def _sets_of(kind: str, parts: Sets) -> Sets:
    if kind == ROLLUP:
        chosen = [tuple(parts[:count]) for count in range(len(parts), -1, -1)]
    else:
        every = (each for count in range(len(parts), -1, -1) for each in combinations(parts, count))
        chosen = [each for each, _ in zip(every, range(SETS_MAX + 1), strict=False)]
    return [list(chain.from_iterable(each)) for each in chosen]

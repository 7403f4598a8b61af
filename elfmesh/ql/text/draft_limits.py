"""Limits of a statement: LIMIT and OFFSET, and the number of nodes after the expansion of WITH.

Every agent analyses a query of WITH once for each reference. If each of n queries reads the previous one
twice, the cost is 2^n analyses. The budget counts nodes and not time, so all agents accept the same texts.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Literal
from elfmesh.ql.text.translate import Translator

NODES_MAX = 10_000
"""Maximum number of nodes of all SELECTs together, whose analysis takes about half a second. A query of WITH
counts at its definition and at each reference."""

TOO_MANY = (
    f"the statement has more than {NODES_MAX} expressions once each query of WITH is put where it is read",
    "Read a query of WITH at fewer places, or make it a job of its own and read its results.",
)

_FREE = (exp.Literal, exp.Identifier)
"""Nodes that are not counted because they cost little: the values of a long IN list, and names within
columns."""


class NodeBudget:
    """Budget of the nodes of all SELECTs of a statement."""

    def __init__(self, nodes_max: int = NODES_MAX) -> None:
        self._left = nodes_max

    def spend(self, select: exp.Select) -> bool:
        """Subtract a SELECT's nodes, without those of its subqueries, from the budget.

        Returns False if it is exceeded.
        """
        own = select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)
        self._left -= sum(1 for node in own if not isinstance(node, _FREE))
        return self._left >= 0


def row_count(tree: Any, clause: str, translator: Translator) -> int | None:
    """Return the integer of LIMIT or OFFSET, or None if `tree` has no such clause.

    `clause` is its argument in the tree.
    """
    given = tree.args.get(clause)
    if given is None:
        return None
    plain = isinstance(given, exp.Limit | exp.Offset) and not any(
        value for name, value in given.args.items() if name != "expression"
    )
    count = translator.expr(given.expression) if plain and given.expression else None
    if (
        not isinstance(count, Literal)
        or count.kind != "bigint"
        or not isinstance(count.value, int)
        or count.value < 0
    ):
        name = clause.upper()
        raise translator.error(given, f"{name} takes a whole number", f"Write {name} 10.")
    return count.value

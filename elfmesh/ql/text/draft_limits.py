"""Limits of a statement: LIMIT and OFFSET, and how many nodes the statement may have once WITH is expanded.

A query in WITH is analysed at each place that reads it, so n queries that each read the one before twice cost
2^n analyses on every agent. The budget counts nodes, not time, so all agents accept the same texts.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from elfmesh.ql.expressions.nodes import Literal
from elfmesh.ql.text.translate import Translator

NODES_MAX = 10_000
"""Nodes of all SELECTs together; a query of WITH counts where it is defined and at each place that reads it.
The analysis of so many takes about half a second."""

TOO_MANY = (
    f"the statement has more than {NODES_MAX} expressions once each query of WITH is put where it is read",
    "Read a query of WITH at fewer places, or make it a job of its own and read its results.",
)

_FREE = (exp.Literal, exp.Identifier)
"""Nodes that cost next to nothing: the values of a long IN list, and names within columns."""


class NodeBudget:
    """Counts the nodes of the SELECTs that are read."""

    def __init__(self, nodes_max: int = NODES_MAX) -> None:
        self._left = nodes_max

    def spend(self, select: exp.Select) -> bool:
        """Take a SELECT's own nodes, without those of inner queries, from the budget; whether it sufficed."""
        own = select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)
        self._left -= sum(1 for node in own if not isinstance(node, _FREE))
        return self._left >= 0


def row_count(tree: Any, clause: str, translator: Translator) -> int | None:
    """The whole number of LIMIT or OFFSET, None without the clause; `clause` is its name in the tree."""
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

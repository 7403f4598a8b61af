"""Evaluation of rows that are emitted before their window closes.

Owns the step from merged states of some groups to the rows that pass a condition, by the job's own finaliser.
Agents use the local condition, the master uses HAVING.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from elfmesh.cbt.rows import Rows, finish_rows
from elfmesh.ql.engine.finalise import Finaliser, Finished
from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.plan.statement import Statement

GroupRows = Mapping[str, Rows]
"""States of some groups of a part, by the names of the part's tables."""


class EarlyCondition:
    """A condition over groups of a part with EARLY, in place of its HAVING; None: each group passes."""

    def __init__(self, part: Statement, condition: Expr | None) -> None:
        self._finaliser = Finaliser(replace(part, plan=replace(part.plan, having=condition)))

    def passing(self, groups: GroupRows, window: tuple[int, int]) -> Finished:
        """Return the rows of the groups that pass; `places` are their rows of the main table, or None."""
        return self._finaliser.finished({name: finish_rows(rows) for name, rows in groups.items()}, window)

    def ordered(self, found: Finished) -> Finished:
        """Return the rows in the order of results, each once."""
        return found.take(self._finaliser.best_rows(found))

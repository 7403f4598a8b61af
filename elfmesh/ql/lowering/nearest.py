"""ASOF JOIN: its condition ON, which is equations and one comparison of the order of both sides.

    FROM trades t ASOF JOIN quotes q ON t.symbol = q.symbol AND t.ts >= q.ts

Each left row has at most one partner: of the right rows with equal keys that satisfy the comparison, the one
whose value is nearest. All rows are of one window, so the result does not depend on the split of the records.
"""

from __future__ import annotations

from msgspec import Struct

from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, FieldRef, Scalar, place_of, walk
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.draft_types import JoinDraft
from elfmesh.ql.plan.relation import Nearest

ASOF_HINT = "Write a ASOF [LEFT] JOIN b ON a.k = b.k AND a.ts >= b.ts."
_TURNED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


class NearestPlan(Struct):
    """Finds the comparison among the conditions of ON that are no equations."""

    origin: SourceText
    join: JoinDraft
    left: frozenset[str]
    right: frozenset[str]

    def of(self, residual: list[Expr]) -> Nearest:
        """Return the comparison, with the left side first.

        Raises:
            QueryError: there is none, or another condition.
        """
        if self.join.within_us:
            hint = "Leave WITHIN out; both rows of an ASOF JOIN are in one window."
            raise self.origin.error("ASOF JOIN has no WITHIN", self.join.within_at, hint)
        found = [self._comparison(each) for each in residual]
        wrong = next((each for each, one in zip(residual, found, strict=True) if one is None), None)
        if wrong is not None:
            message = "ASOF JOIN takes equations and one comparison of both sides, and no other condition"
            hint = f"{ASOF_HINT} Filter in WHERE, or the right side in a subquery."
            raise self.origin.error(message, place_of(wrong), hint)
        if len(found) != 1 or found[0] is None:
            assert self.join.on is not None
            where = place_of(residual[1] if len(residual) > 1 else self.join.on)
            count = "has several comparisons" if found else "has no comparison of both sides"
            raise self.origin.error(f"ASOF JOIN {count}", where, ASOF_HINT)
        return found[0]

    def _comparison(self, condition: Expr) -> Nearest | None:
        if not isinstance(condition, Call) or condition.name not in _TURNED:
            return None
        if any(isinstance(node, Scalar | Aggregate) for node in walk(condition)):
            return None
        first, second = condition.args
        used = [{node.path for node in walk(arg) if isinstance(node, FieldRef)} for arg in (first, second)]
        if not all(used):
            return None
        if used[0] <= self.left and used[1] <= self.right:
            return Nearest(first, second, condition.name)
        if used[0] <= self.right and used[1] <= self.left:
            return Nearest(second, first, _TURNED[condition.name])
        return None

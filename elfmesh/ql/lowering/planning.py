"""Choice of the lowering for a draft."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import Expr, Over, walk
from elfmesh.ql.lowering.lowering import Lowering, refuse_grouping
from elfmesh.ql.lowering.lowering_lists import exploded, explodes
from elfmesh.ql.lowering.lowering_rows import over_rows
from elfmesh.ql.lowering.resampling import resampled
from elfmesh.ql.lowering.set_operations import set_operation
from elfmesh.ql.plan.draft_types import UNION, Draft, SelectDraft, UnionDraft
from elfmesh.ql.plan.names import SelectItem, SelectNames
from elfmesh.ql.plan.relation import Union
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import late_expressions


@dataclass(slots=True)
class Planner(Lowering):
    """Planner of one statement, for any kind of draft."""

    def query(self, draft: Draft) -> Relation:
        if isinstance(draft, SelectDraft) and draft.resample is not None:
            rows = self.query(replace(draft, resample=None))
            return resampled(self.origin, draft, rows, self.window)
        if isinstance(draft, UnionDraft) and draft.kind != UNION:
            return set_operation(self, draft)
        if isinstance(draft, UnionDraft):
            union = Union(draft.columns, draft.at, tuple(self.query(each) for each in draft.sources))
            return self.all_rows(union, distinct=True) if draft.distinct else union
        select = draft.select
        over = any(isinstance(node, Over) for expr in late_expressions(select) for node in walk(expr))
        if select.qualify is not None and not over:
            raise self.origin.error(
                "QUALIFY needs a window function", select.qualify.at,
                "Filter rows with WHERE, groups with HAVING.",
            )  # fmt: skip
        if select.where is not None:
            self._refuse_aliases(draft, select.where)
        if draft.sets is not None:
            return over_rows(self, draft)
        if explodes(draft):
            return exploded(self, draft)
        refuse_grouping(draft.select, self.origin)
        return over_rows(self, draft) if over else self.select(draft, select)

    def _refuse_aliases(self, draft: SelectDraft, where: Expr) -> None:
        named = zip(draft.columns, draft.select.items, strict=True)
        items = [SelectItem(name, expr, given is not None) for name, (given, expr) in named]
        SelectNames(self.origin, items, None).refuse_aliases(where, "WHERE")

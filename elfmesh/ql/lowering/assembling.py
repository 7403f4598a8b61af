"""Assembly of a statement from the plan of its draft."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.counting import counted
from elfmesh.ql.lowering.planning import Planner
from elfmesh.ql.plan.draft_types import Draft, SelectDraft
from elfmesh.ql.plan.relation import Derived, StatementPart, rests_on, within_of
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.statement import ROWS, SAME, WITHIN, Statement, TableSpec, is_beside, part_table


def relational(
    origin: SourceText, draft: Draft, scalars: Sequence[tuple[str, Draft]], plan: Planner
) -> Statement:
    """Return a statement with a second stage: parts for agents, and a relation for the root.

    Raises QueryError.
    """
    values = tuple((name, plan.query(each)) for name, each in scalars)
    relation: Relation
    if plan.window is not None and plan.window.kind == ROWS:
        assert isinstance(draft, SelectDraft)
        relation = counted(plan, draft)
    else:
        relation = plan.query(draft)
    if not isinstance(relation, Derived | StatementPart):
        relation = plan.all_rows(relation)  # the order of results is total
    parts = tuple(plan.parts)
    plan.check_times()
    recorded = {index for index, part in enumerate(parts) if not is_beside(part.stream)}
    if len(recorded) < len(parts) and not rests_on(relation, recorded):
        raise origin.error(
            "LATEST and SAME can only be joined to a stream", draft.at,
            "Write FROM stream s [LEFT [SEMI|ANTI]] JOIN LATEST namespace.job j ON s.x = j.x.",
        )  # fmt: skip
    if plan.window is None and any(part.stream.startswith(SAME) for part in parts):
        raise origin.error(
            "SAME needs intervals", draft.at,
            "Add GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), or EVERY to the job.",
        )  # fmt: skip
    tables = tuple(
        TableSpec(part_table(index, table.name), table.keys, table.aggregates)
        for index, part in enumerate(parts)
        for table in part.tables
    )
    fields = tuple(sorted({name for part in parts for name in part.fields}))
    if parts:
        first = parts[0]
    else:
        assert isinstance(relation, Derived), "what reads nothing computes something"
        first = relation.statement
    window, join = first.window, within_of(relation)
    if window is not None and join is not None:
        window = replace(window, kind=WITHIN, within_us=join.within_us)
    return Statement(
        "", origin.name, None, first.stream, first.labels, window, fields, tables, False, first.plan,
        origin, relation=relation, parts=parts, scalars=values,
    )  # fmt: skip

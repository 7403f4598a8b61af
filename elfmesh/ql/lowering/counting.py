"""Lowering of GROUP BY ROWS(n[, step]): the records of each group, in windows of a number of them.

Agents send the fields that the windows need, equal records once with their number. The root puts the records
of each group in order and counts them (`engine.counted`). Everything above is a SELECT over the records of
each window.

Invariants: the keys of the part are those of the groups, then the event time, then the fields, then the
window. So the bytes of a key order the records of each group by time, then by all fields in use.

Paper: Hwang et al., IV-F, Algorithm 4. Deviation: it has one count for all groups.
"""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal, Ref, WindowCall, walk
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.analysis import analyse
from elfmesh.ql.lowering.planning import Planner
from elfmesh.ql.plan.draft_types import SelectDraft, StreamRead
from elfmesh.ql.plan.relation import TIME, WINDOW, Counted, Derived, StatementPart
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.selection import Select
from elfmesh.ql.plan.statement import QueryPlan, Statement, TableSpec, WindowSpec, record_expressions
from elfmesh.ql.plan.windows import TIME_COLUMN


def counted(plan: Planner, draft: SelectDraft) -> Derived:
    """Return the relation of a query with ROWS over one stream; adds its part to the plan."""
    select, origin = draft.select, plan.origin
    candidates = (*draft.scope.inputs[0].used, TIME, WINDOW)
    others = [expr for expr in select.group or [] if not isinstance(expr, WindowCall)]
    assert plan.window is not None
    above = replace(
        select, where=None, group=[FieldRef(WINDOW, True), *others],
        window=replace(plan.window, column=TIME), derived=True,
    )  # fmt: skip
    derived = plan.derived(Relation(candidates, select.start), above)
    fields = _fields(derived.statement.plan)
    keys = [key for key in derived.statement.plan.keys if key != FieldRef(WINDOW, True)]
    keys = [key for key in keys if any(isinstance(node, FieldRef) for node in walk(key))]
    part = _part(origin, draft, plan.window, keys, fields)
    plan.parts.append(part)
    source = StatementPart(part.columns, select.start, len(plan.parts) - 1)
    chosen = (*(f"#{at}" for at in range(len(fields))), TIME, WINDOW)
    about = (tuple(keys), plan.window.rows, plan.window.step)
    records = Counted((*fields, TIME, WINDOW), select.start, source, chosen, *about)
    return replace(derived, source=records)


def _fields(plan: QueryPlan) -> tuple[str, ...]:
    """Return the fields that the windows need; those of WHERE are not among them."""
    nodes = [node for expr in record_expressions(plan) for node in walk(expr)]
    used = dict.fromkeys(node.path for node in nodes if isinstance(node, FieldRef))
    return tuple(name for name in used if name not in (TIME, WINDOW))


def _part(
    origin: SourceText, draft: SelectDraft, window: WindowSpec, keys: list[Expr], fields: tuple[str, ...]
) -> Statement:
    (read,) = draft.reads
    assert isinstance(read, StreamRead)
    at = draft.scope.inputs[0].at
    items: list[tuple[str | None, Expr]] = [(f"#g{number}", key) for number, key in enumerate(keys)]
    items.append((TIME, Call("event time", (FieldRef(TIME_COLUMN, True),), at=at)))
    items += [(f"#{number}", FieldRef(name, True, at=at)) for number, name in enumerate(fields)]
    where = draft.select.where
    done = analyse(
        origin, Select(items, where, None, None, [], None, False, window, draft.at, beside=True), None
    )
    plan, (main, *_) = done.plan, done.tables
    key = f"k{len(plan.keys)}"
    numbered: QueryPlan = replace(
        plan, keys=(*plan.keys, Literal("bigint", 0)), outputs=(*plan.outputs, (WINDOW, Ref(key)))
    )
    table = TableSpec(main.name, (*main.keys, key), main.aggregates)
    return Statement(
        "", origin.name, None, read.stream, read.labels, window, done.fields, (table,), False, numbered,
        origin,
    )  # fmt: skip

"""Relations: small frozen trees over the parts; `relational` evaluates them at the root.

A relation is a table with named columns for each interval. Inside a join a column is called `input.column`;
the names of hidden columns begin with `#`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from elfmesh.ql.expressions.nodes import Expr, Over, Ref, walk
from elfmesh.ql.expressions.resampling import ResampleClause
from elfmesh.ql.plan.elements import Elements
from elfmesh.ql.plan.fidelity_shape import ONE_INPUT, FidelityShape
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.statement import Statement


class StatementPart(Relation, frozen=True):
    """Finished rows of a part of the statement."""

    index: int


class Derived(Relation, frozen=True):
    """SELECT over another relation, evaluated like a part; the relation's columns are its fields."""

    source: Relation
    statement: Statement


class OneRow(Relation, frozen=True):
    """One row, of which a SELECT without FROM is computed."""


class Prefixed(Relation, frozen=True):
    """Rows of a relation with the name of the input before each column name."""

    source: Relation


class Union(Relation, frozen=True):
    """Rows of all sources; columns are matched by position and named as in the first source."""

    sources: tuple[Relation, ...]


class JoinKey(Struct, frozen=True):
    """Join condition: left = right, left <=> right (`null_safe`), or left IN (right) (`listed`)."""

    left: Expr
    right: Expr
    null_safe: bool
    listed: bool = False


class Nearest(Struct, frozen=True):
    """Comparison of an ASOF JOIN: of the right rows with left `compare` right, the nearest is joined."""

    left: Expr
    right: Expr
    compare: str


class JoinRelation(Relation, frozen=True):
    """Join: pairs of rows that agree in the keys and satisfy the rest of ON.

    `kind` is "inner", "left", "right", "full", "semi" (left rows with a match) or "anti" (left rows without
    one). With `within_us`, rows of both sides are less than this apart, by their columns `times`. A pair
    belongs to the interval of its later row. A left row without a match belongs to the interval in which no
    later row can match it any more. With `nearest`, a left row has the nearest one of its right rows only.
    """

    kind: str
    left: Relation
    right: Relation
    keys: tuple[JoinKey, ...]
    residual: Expr | None
    within_us: int = 0
    times: tuple[str, str] = ("", "")
    nearest: Nearest | None = None


class Ranked(Relation, frozen=True):
    """Rows of the source with one more column for each window function: #w0, #w1, ..."""

    source: Relation
    functions: tuple[tuple[str, Over], ...]


class Framed(Relation, frozen=True):
    """Rows of the source with one more column for each aggregate over frames.

    `statement` has the aggregates of one frame. Its rows are grouped by ROW, the row that the frame belongs
    to. `zero` has for each aggregate whether it is 0 over no rows.
    """

    source: Relation
    over: Over
    statement: Statement
    zero: tuple[bool, ...]


class Counted(Relation, frozen=True):
    """Records of a part, once for each window of ROWS that they are in.

    The step of the groups puts them into the windows, of `rows` records every `step` records. `chosen` has
    for each column the name of the source's column. The first keys of the part are those of the groups,
    `groups`; the next one is the event time.
    """

    source: Relation
    chosen: tuple[str, ...]
    groups: tuple[Expr, ...]
    rows: int
    step: int


class Exploded(Relation, frozen=True):
    """One row for each element of a list or map of the source's rows.

    `chosen` has for each column the name of the source's column; `made(0)`, ... are columns of the element.
    """

    source: Relation
    values: Expr
    call: Elements
    chosen: tuple[str, ...]


class Resampled(Relation, frozen=True):
    """Rows of the source, and a row for each grid point of the interval at which a partition has none.

    With `shown_us`, the window looks back, and only the rows of its last `shown_us` are shown. If `bounded`,
    the grid is that of the interval; otherwise it reaches from the first to the last row.
    """

    source: Relation
    clause: ResampleClause
    shown_us: int
    bounded: bool


def made(at: int) -> str:
    """Return the name in `Exploded.chosen` of a column of the element."""
    return f"#e{at}"


TIME = "#t"
"""Column of records whose event time the root needs."""

WINDOW = "#w"
"""Column of `Counted`: the number of the window, counted from the first of its group that was not full."""

ROW = "#row"
"""Field in the rows of `Framed`: the row that the frame belongs to."""


def fidelity_shape(relation: Relation | None, apart: Collection[int] = ()) -> FidelityShape:
    """Return the shape of a relation; the parts in `apart`, results of other jobs, are judged elsewhere."""
    match relation:
        case JoinRelation():
            left = fidelity_shape(relation.left, apart)
            # The right side of a join in the text is a Prefixed; totals that are joined to rows are not.
            if not isinstance(relation.right, Prefixed):
                return left
            return FidelityShape("join", sources=(left, fidelity_shape(relation.right, apart)))
        case Union():
            sources = tuple(fidelity_shape(source, apart) for source in relation.sources)
            return FidelityShape("union", sources=sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded() | Counted() | Resampled():
            return fidelity_shape(relation.source, apart)
        case StatementPart():
            return FidelityShape("whole" if relation.index in apart else "input", relation.index)
        case OneRow():
            return FidelityShape("whole")
    return ONE_INPUT


def within_of(relation: Relation | None) -> JoinRelation | None:
    """Return the join WITHIN a time, of which a statement has at most one."""
    while relation is not None:
        if isinstance(relation, JoinRelation):
            if relation.within_us:
                return relation
            relation = relation.left
        else:
            relation = getattr(relation, "source", None)
    return None


def part_of(relation: Relation) -> int:
    """Return the part whose rows a side of a join WITHIN has."""
    while isinstance(relation, Prefixed):
        relation = relation.source
    assert isinstance(relation, StatementPart)
    return relation.index


def key_columns(statement: Statement) -> tuple[str, ...] | None:
    """Return the columns of a result that are made of its group keys; None: its last step groups nothing."""
    relation = statement.relation
    if not (relation is None or isinstance(relation, Derived)):
        return None
    if relation is not None and isinstance(relation.source, Counted):
        return None  # several windows of a group may end in an interval
    last = statement if relation is None else relation.statement
    keys, made_of = {*last.tables[0].keys}, dict[str, set[str]]()
    for name, expr in last.plan.outputs:
        made_of[name] = {node.name for node in walk(expr) if isinstance(node, Ref)}
    found = tuple(name for name, columns in made_of.items() if columns and columns <= keys)
    return found if len(found) < len(made_of) else None


def rests_on(relation: Relation, parts: Collection[int]) -> bool:
    """Return whether a relation has rows only for intervals in which one of these parts has rows."""
    match relation:
        case StatementPart():
            return relation.index in parts
        case OneRow():
            return False
        case JoinRelation(kind="inner"):
            return rests_on(relation.left, parts) or rests_on(relation.right, parts)
        case JoinRelation(kind="right"):
            return rests_on(relation.right, parts)
        case JoinRelation(kind="full"):
            return rests_on(relation.left, parts) and rests_on(relation.right, parts)
        case JoinRelation():
            return rests_on(relation.left, parts)
        case Union():
            return all(rests_on(source, parts) for source in relation.sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded() | Counted() | Resampled():
            return rests_on(relation.source, parts)
    raise AssertionError(relation)

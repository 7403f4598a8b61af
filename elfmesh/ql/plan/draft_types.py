"""Drafts of queries as plain data. Names are resolved to inputs; windows and parts are not determined yet."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.resampling import ResampleClause
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.plan.elements import Elements
from elfmesh.ql.plan.scope import NameScope
from elfmesh.ql.plan.selection import Select

UNION, INTERSECT, EXCEPT = "UNION", "INTERSECT", "EXCEPT"
"""Kinds of `UnionDraft`."""


class StreamRead(Struct):
    """Input that is a stream, with its labels; or the results of a job, "[latest |same ]namespace/name"."""

    stream: str
    labels: tuple[tuple[str, str], ...]


class LookupRead(Struct):
    """Input that is a lookup table."""

    name: str


class ElementsRead(Struct):
    """Input that is made of a list or map of the earlier inputs' rows."""

    values: Expr
    call: Elements


class NothingRead(Struct):
    """Input of a SELECT without FROM: one row without columns."""


class JoinDraft(Struct):
    """Join of an input with the inputs before it; the kind of an `ElementsRead` is "lateral".

    With WITHIN, which stands at `within_at`, records of both sides are less than `within_us` apart. ASOF
    pairs a left row with the nearest right row.
    """

    kind: str
    on: Expr | None
    within_us: int = 0
    within_at: TextPosition = NOWHERE
    asof: bool = False


class SelectDraft(Struct):
    """SELECT: its clauses, its inputs (`reads`, aligned with `scope.inputs`), and their joins.

    `nested` has the correlated subqueries; they are joined last, under the names of `scope.nested`.
    """

    select: Select
    scope: NameScope
    reads: list[Read]
    joins: list[JoinDraft]
    columns: tuple[str, ...]
    sets: list[list[Expr]] | None
    at: TextPosition
    nested: list[tuple[Draft, JoinDraft]] = field(default_factory=list)
    resample: ResampleClause | None = None


class UnionDraft(Struct):
    """UNION, INTERSECT or EXCEPT of queries with equally many columns; `distinct` removes duplicate rows.

    INTERSECT and EXCEPT have two sources.
    """

    sources: list[Draft]
    distinct: bool
    columns: tuple[str, ...]
    at: TextPosition
    kind: str = UNION


Draft = SelectDraft | UnionDraft
Read = StreamRead | LookupRead | ElementsRead | NothingRead | SelectDraft | UnionDraft


def distinguished(draft: Draft) -> Draft:
    """Make the columns' names unique, for a query whose names are not shown (the second of a UNION)."""
    if isinstance(draft, UnionDraft):
        first = distinguished(draft.sources[0])
        return replace(draft, sources=[first, *draft.sources[1:]], columns=first.columns)
    columns: list[str] = []
    items: list[tuple[str | None, Expr]] = []
    for at, ((given, expr), name) in enumerate(zip(draft.select.items, draft.columns, strict=True)):
        twice = name.lower() in {each.lower() for each in columns}
        columns.append(f"#{at}" if twice else name)
        items.append((f"#{at}" if twice else given, expr))
    return replace(draft, select=replace(draft.select, items=items), columns=tuple(columns))


def resampling(draft: Draft, clause: ResampleClause | None) -> Draft:
    """Return the draft of a SELECT that ends with RESAMPLE; None: it does not."""
    if clause is None:
        return draft
    assert isinstance(draft, SelectDraft)
    return replace(draft, resample=clause)

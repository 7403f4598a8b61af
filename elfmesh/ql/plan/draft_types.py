"""What a query reads and how, as plain data. Names are resolved; windows and places are not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import Place
from elfmesh.ql.plan.elements import Elements
from elfmesh.ql.plan.scope import Scope
from elfmesh.ql.plan.selection import Select


@dataclass(slots=True)
class StreamRead:
    """An input that is a stream, with its labels; or a job's results, "[latest |same ]namespace/name"."""

    stream: str
    labels: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class LookupRead:
    """An input that is a table from a file."""

    name: str


@dataclass(slots=True)
class ElementsRead:
    """An input that is made of the rows before it: a list or map of theirs, and how it is taken apart."""

    values: Expr
    call: Elements


@dataclass(slots=True)
class JoinDraft:
    """How the input after JOIN is joined to those before it; an `ElementsRead` is "lateral"."""

    kind: str
    on: Expr | None


@dataclass(slots=True)
class SelectDraft:
    """One SELECT: its clauses, its inputs (`reads`, aligned with `scope.inputs`), and how they are joined.

    `nested` are queries in brackets that depend on its rows: joined last, under the names of `scope.nested`.
    """

    select: Select
    scope: Scope
    reads: list[Read]
    joins: list[JoinDraft]
    columns: tuple[str, ...]
    sets: list[list[Expr]] | None
    at: Place
    nested: list[tuple[Draft, JoinDraft]] = field(default_factory=list)


@dataclass(slots=True)
class UnionDraft:
    """UNION [ALL] of queries with equally many columns; `distinct` of all rows together."""

    sources: list[Draft]
    distinct: bool
    columns: tuple[str, ...]
    at: Place


Draft = SelectDraft | UnionDraft
Read = StreamRead | LookupRead | ElementsRead | SelectDraft | UnionDraft


def distinguished(draft: Draft) -> Draft:
    """A query whose names of columns do not show, as the second of a UNION: each has its own."""
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

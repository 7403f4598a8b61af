"""What the root does with finished rows: small frozen trees over the parts; `relational` evaluates them.

A relation is a table per interval with named columns. Inside a join a column is called `input.column`; hidden
columns begin with `#`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from elfmesh.ql.expressions.nodes import Expr, Over
from elfmesh.ql.plan.elements import Elements
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.statement import Statement


@dataclass(frozen=True, slots=True)
class Part(Relation):
    """The finished rows of a part of the statement."""

    index: int


@dataclass(frozen=True, slots=True)
class Derived(Relation):
    """A SELECT over another relation, evaluated as a part is: its columns are the fields of the statement."""

    source: Relation
    statement: Statement


@dataclass(frozen=True, slots=True)
class Prefixed(Relation):
    """The same rows, each column named after the input it comes from."""

    source: Relation


@dataclass(frozen=True, slots=True)
class Union(Relation):
    """The rows of all sources; columns by position, called as those of the first."""

    sources: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class JoinKey:
    """left = right, left <=> right (`null_safe`), or left IN (right) (`listed`): other types."""

    left: Expr
    right: Expr
    null_safe: bool
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Joined(Relation):
    """Pairs of rows that agree in the keys and meet the rest of ON.

    `kind`: "inner", "left", "right", "full", "semi" (left rows with a partner) or "anti" (without).
    """

    kind: str
    left: Relation
    right: Relation
    keys: tuple[JoinKey, ...]
    residual: Expr | None


@dataclass(frozen=True, slots=True)
class Ranked(Relation):
    """The rows of the source with one more column for each function over them, #w0, #w1, ..."""

    source: Relation
    functions: tuple[tuple[str, Over], ...]


@dataclass(frozen=True, slots=True)
class Framed(Relation):
    """The rows of the source with one more column for each aggregate over the rows of their frames.

    `statement` has the aggregates of one frame: its rows are grouped by ROW, the row whose frame they are.
    `zero` says per aggregate whether it is 0 over nothing.
    """

    source: Relation
    over: Over
    statement: Statement
    zero: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Exploded(Relation):
    """A row for each element of a list or map of the source's rows.

    `chosen` says per column which column of the source it is; `made(0)`, ... are what the element gives.
    """

    source: Relation
    values: Expr
    call: Elements
    chosen: tuple[str, ...]


def made(at: int) -> str:
    """What `Exploded.chosen` calls a column that an element gives."""
    return f"#e{at}"


ROW = "#row"
"""The field of `Framed` that says whose frame a row is in."""


def joined_inputs(relation: Relation | None, apart: Collection[int] = ()) -> int:
    """How many inputs the rows of a relation are put together of, parts in `apart` not counted."""
    match relation:
        case Joined():
            # The right side of a join in the text is prefixed; totals that are put beside rows are not.
            other = joined_inputs(relation.right, apart) if isinstance(relation.right, Prefixed) else 0
            return joined_inputs(relation.left, apart) + other
        case Union():
            return max(joined_inputs(source, apart) for source in relation.sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded():
            return joined_inputs(relation.source, apart)
        case Part():
            return int(relation.index not in apart)
    return 1


def rests_on(relation: Relation, parts: Collection[int]) -> bool:
    """Whether a relation has rows only where one of some parts has."""
    match relation:
        case Part():
            return relation.index in parts
        case Joined(kind="inner"):
            return rests_on(relation.left, parts) or rests_on(relation.right, parts)
        case Joined(kind="right"):
            return rests_on(relation.right, parts)
        case Joined(kind="full"):
            return rests_on(relation.left, parts) and rests_on(relation.right, parts)
        case Joined():
            return rests_on(relation.left, parts)
        case Union():
            return all(rests_on(source, parts) for source in relation.sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded():
            return rests_on(relation.source, parts)
    raise AssertionError(relation)

"""ASSUME of a job as data; `ql.lowering.assumptions` reads it, `ql.engine.assumed` checks it on records."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.values.compared import PartlyCompared


class AssumedBound(PartlyCompared, frozen=True):
    """`column >= limit`, or with `upper` `column <= limit`, for every record that has a value."""

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    column: str
    limit: int | float
    upper: bool = False
    at: TextPosition = NOWHERE

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def __str__(self) -> str:
        return f"{self.column} {'<=' if self.upper else '>='} {self.limit}"


class AssumedDependency(PartlyCompared, frozen=True):
    """Records with equal values in the columns of `left` have equal values in the column `right`.

    A record without one of these values contradicts nothing.
    """

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    left: tuple[str, ...]
    right: str
    at: TextPosition = NOWHERE

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left, self.right)

    def __str__(self) -> str:
        left = self.left[0] if len(self.left) == 1 else f"({', '.join(self.left)})"
        return f"{left} -> {self.right}"


Assumption: TypeAlias = AssumedBound | AssumedDependency

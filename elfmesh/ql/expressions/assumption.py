"""ASSUME of a job as data; `ql.lowering.assumptions` reads it, `ql.engine.assumed` checks it on records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition


@dataclass(frozen=True, slots=True)
class AssumedBound:
    """`column >= limit`, or with `upper` `column <= limit`, for every record that has a value."""

    column: str
    limit: int | float
    upper: bool = False
    at: TextPosition = field(default=NOWHERE, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def __str__(self) -> str:
        return f"{self.column} {'<=' if self.upper else '>='} {self.limit}"


@dataclass(frozen=True, slots=True)
class AssumedDependency:
    """Records with equal values in the columns of `left` have equal values in the column `right`.

    A record without one of these values contradicts nothing.
    """

    left: tuple[str, ...]
    right: str
    at: TextPosition = field(default=NOWHERE, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left, self.right)

    def __str__(self) -> str:
        left = self.left[0] if len(self.left) == 1 else f"({', '.join(self.left)})"
        return f"{left} -> {self.right}"


Assumption: TypeAlias = AssumedBound | AssumedDependency

"""Errors of the compressed buffer tree that data can cause. Misuse by our own code raises ValueError."""

from __future__ import annotations

from elfmesh.errors import DataError, ElfError, RuntimeFailure


class TypeConflict(DataError):
    """A column has two types without a common type."""

    def __init__(self, column: str, left: str, right: str) -> None:
        self.column, self.left, self.right = column, left, right
        super().__init__(
            f"column {column!r} is {left} in one place and {right} in another",
            hint="Cast it in the query, so that every agent and every batch gives one type.",
        )


class NotInvertible(ElfError):
    """Subtraction of aggregates without an inverse (min, max, or no count of rows)."""


class PartialTooLarge(RuntimeFailure):
    """A partial, or one of its blocks, would unpack to more than receivers accept (`partial_wire.py`)."""

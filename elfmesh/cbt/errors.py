"""What can go wrong in the compressed buffer tree through data; misuse by our own code raises ValueError."""

from __future__ import annotations

from elfmesh.errors import DataError, ElfError, RuntimeFailure


class TypeConflict(DataError):
    """One column came with two types that have no common type."""

    def __init__(self, column: str, left: str, right: str) -> None:
        self.column, self.left, self.right = column, left, right
        super().__init__(
            f"column {column!r} is {left} in one place and {right} in another",
            hint="Cast it in the query, so that every agent and every batch gives one type.",
        )


class NotInvertible(ElfError):
    """A subtraction was asked of aggregates that declare no inverse (min, max, or no count of rows)."""


class PartialTooLarge(RuntimeFailure):
    """A partial, or a block of one, would unfold to more than its receivers accept (`partial_wire.py`)."""

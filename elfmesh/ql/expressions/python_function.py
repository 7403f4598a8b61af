"""Functions that a statement brings along, and who evaluates them.

Owns what a declaration says; `declared` reads it. Runs nothing: the source is a text here. Whoever evaluates
records does that in a process of its own (`FunctionSource`).

Invariant: two functions are equal when all of their declaration is, source included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from elfmesh.ql.values.columns import Bools
from elfmesh.ql.values.types import type_name


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """One declared function.

    Attributes:
        name: lower case; the source defines a function of this name.
        takes: names and types of its arguments.
        gives: type of its value.
        vectorised: it is given whole columns (pyarrow arrays) and returns one; else a record's values.
        source: its text, as it stands between the fences.
    """

    name: str
    takes: tuple[tuple[str, pa.DataType], ...]
    gives: pa.DataType
    vectorised: bool
    source: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the source, for people who compare what runs with what was reviewed."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def signature(self) -> str:
        takes = ", ".join(f"{name} {type_name(kind)}" for name, kind in self.takes)
        how = " VECTORISED" if self.vectorised else ""
        return f"{self.name}({takes}) RETURNS {type_name(self.gives)} LANGUAGE PYTHON{how}"


@dataclass(frozen=True, slots=True)
class Computed:
    """What a function has made of some records.

    Attributes:
        values: one per record, of the declared type.
        failed: bool[records]: of which there is no value; None: of none.
    """

    values: pa.Array
    failed: Bools | None


class FunctionSource(Protocol):
    """Evaluates the functions of one statement; whoever has them implements this."""

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        """The function over some records.

        Args:
            function: one of the statement's.
            columns: its arguments, of the declared types, each with `rows` elements.
            rows: how many records.

        Never raises because of what the function does.
        """
        ...

"""Functions that a statement declares: text here; a `FunctionSource` runs them in another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from elfmesh.ql.values.columns import Bools
from elfmesh.ql.values.types import type_name


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """One declared function; equal only if all of its declaration is, source included.

    A `vectorised` one receives whole pyarrow columns and returns one, else it receives a record's values.
    """

    name: str
    takes: tuple[tuple[str, pa.DataType], ...]
    gives: pa.DataType
    vectorised: bool
    source: str = field(repr=False)

    @property
    def signature(self) -> str:
        takes = ", ".join(f"{name} {type_name(kind)}" for name, kind in self.takes)
        how = " VECTORISED" if self.vectorised else ""
        return f"{self.name}({takes}) RETURNS {type_name(self.gives)} LANGUAGE PYTHON{how}"


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of a function, one per record, and bool[records] of those without one (None: all have)."""

    values: pa.Array
    failed: Bools | None


class FunctionSource(Protocol):
    """Evaluates the functions of one statement; the room that has them implements this."""

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        """The function over `rows` records; never raises because of what the function does."""
        ...

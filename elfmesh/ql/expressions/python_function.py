"""Python functions that a statement declares.

This module has their text; a `FunctionSource` runs them elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from msgspec import Struct

from elfmesh.ql.values.columns import Bools
from elfmesh.ql.values.types import type_name


class PythonFunction(Struct, frozen=True):
    """Declared function; two are equal only if their whole declarations are equal, including the source.

    A `vectorised` function receives whole pyarrow columns and returns one; others receive the values of a
    record. `ordered` is None for a function whose result depends on its arguments alone. Otherwise its author
    declares that it depends on more, within partitions of these columns; without any, on anything.
    """

    name: str
    takes: tuple[tuple[str, pa.DataType], ...]
    gives: pa.DataType
    vectorised: bool
    source: str
    ordered: tuple[str, ...] | None = None

    @property
    def signature(self) -> str:
        takes = ", ".join(f"{name} {type_name(kind)}" for name, kind in self.takes)
        how = " VECTORISED" if self.vectorised else ""
        if self.ordered is not None:
            how += " ORDERED READ" + (f" BY ({', '.join(self.ordered)})" if self.ordered else "")
        return f"{self.name}({takes}) RETURNS {type_name(self.gives)} LANGUAGE PYTHON{how}"


class Computed(Struct, frozen=True):
    """Values of a function, one per record, and bool[records] of those without one (None: all have one)."""

    values: pa.Array
    failed: Bools | None


class FunctionSource(Protocol):
    """Interface of the evaluator of a statement's functions; `ingest.functions` implements it."""

    def call(self, function: PythonFunction, columns: Sequence[pa.Array], rows: int) -> Computed:
        """Call the function for `rows` records. Never raises because of the function's own faults."""
        ...

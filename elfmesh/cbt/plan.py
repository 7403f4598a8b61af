"""Plan of one table: its keys and aggregates, and the conversion of batches to keys and inputs.

Paper: ELF 2.2 (each parsed key-value pair becomes a PAO).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.base import Values
from elfmesh.cbt.rows import Layout, Types

Aggregates = Mapping[str, tuple[str, str | tuple[str, ...] | None]]
"""Aggregate name -> (kind, input column, several of them, or None for the count of rows)."""


class TreePlan:
    """Checked keys and aggregates of one table. No keys: one global group; no aggregates: a set of keys."""

    def __init__(self, keys: Sequence[str], aggregates: Aggregates) -> None:
        self.keys = tuple(keys)
        self.aggregates = {name: (kind, column) for name, (kind, column) in aggregates.items()}
        names = [*self.keys, *self.aggregates]
        if len(set(names)) != len(names):
            raise ValueError(f"a name is used twice in {names}")
        if not names:
            raise ValueError("a table needs a key or an aggregate")
        for name, (kind, column) in self.aggregates.items():
            if kind not in LAWS:
                raise ValueError(
                    f"aggregate {name!r} has the unknown kind {kind!r}, known are {sorted(LAWS)}"
                )
            given, wanted = len(_names(column)), LAWS[kind].inputs
            if column is None and wanted:
                raise ValueError(f"aggregate {name!r} of kind {kind} needs an input column")
            if given != wanted and (given > 1 or wanted > 1):
                raise ValueError(f"aggregate {name!r} of kind {kind} needs {wanted} input columns")
        self.inputs = tuple(_names(column) for _, column in self.aggregates.values())
        self.laws = tuple(LAWS[kind] for kind, _ in self.aggregates.values())
        self.layout = Layout(self.keys, tuple((name, kind) for name, (kind, _) in self.aggregates.items()))

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the canonical key and input columns of a batch, each once. Raises DataError."""
        out: dict[str, pa.Array] = {}
        names = batch.schema.names
        for name in (*self.keys, *(name for names in self.inputs for name in names)):
            if name not in out:
                if name not in names:
                    raise ValueError(f"batch has no column {name!r}, it has {names}")
                out[name] = normalise(batch.column(names.index(name)), name)
        return out

    def values(self, columns: Mapping[str, pa.Array]) -> list[Values]:
        return [
            None
            if not names
            else columns[names[0]]
            if len(names) == 1
            else tuple(columns[name] for name in names)
            for names in self.inputs
        ]

    def value_types(self, values: Sequence[Values]) -> Types:
        return tuple(
            law.value_type(taken, name)
            for law, taken, name in zip(self.laws, values, self.aggregates, strict=True)
        )


def _names(column: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if column is None:
        return ()
    return (column,) if isinstance(column, str) else tuple(column)

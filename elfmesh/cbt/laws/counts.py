"""count: number of rows, or of values that are not null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import integers
from elfmesh.cbt import kernel
from elfmesh.cbt.columns import valid_mask
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values


class Count(Law):
    """count(*) counts rows, count(x) the values that are not null."""

    kind, invertible, inputs = "count", True, 0

    def value_type(self, values: Values, name: str) -> pa.DataType:
        return pa.int64()

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with 8 bytes per group."""
        return CountAccumulator()

    def negate(self, state: State) -> State:
        return State(self.kind, state.type, {part: -column for part, column in state.parts.items()})

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return int64."""
        (column,) = state.parts.values()
        return integers(column)

    def check(self, state: State, rows: int) -> None:
        if set(state.parts) not in ({"rows"}, {"values"}) or state.type != pa.int64():
            raise ValueError(f"a count has columns {sorted(state.parts)}")
        if not all(isinstance(column, np.ndarray) for column in state.parts.values()):
            raise ValueError("a count is not made of plain integers")


class CountAccumulator(Accumulator):
    """One integer per group. Counts of real records cannot overflow 64 bits."""

    def __init__(self) -> None:
        self.type = pa.int64()
        self._counts = Growing()
        self._part = "rows"

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        if values is not None:
            assert isinstance(values, pa.Array)
            self._part = "values"
            if (valid := valid_mask(values)) is not None:
                ids = ids[valid]
        kernel.active.count(ids, self._counts.reach(groups))

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        ((part, counts),) = state.parts.items()
        if part == "values":
            self._part = part
        kernel.active.add(ids, counts, self._counts.reach(groups))

    def freeze(self, groups: int) -> State:
        return State("count", self.type, {self._part: self._counts.head(groups).copy()})

    def clear(self) -> None:
        self._counts.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Keep int64, because a count does not depend on the type of the values."""

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

"""min and max of any type. NaN is the greatest number and strings compare by unsigned bytes, as in Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import from_int64, is_orderable_as_int, promote, to_int64, valid_mask
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.records import Records
from elfmesh.cbt.nested import check_keys

_INT64 = np.iinfo(np.int64)


class Extreme(Law):
    """min or max."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def value_type(self, values: Values, name: str) -> pa.DataType:
        return one_column(values).type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with 8 bytes per group; for strings and decimals 40 to 60 and the value."""
        return ExtremeAccumulator(self.kind, data_type)

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Promote the extremes: promotion keeps the order, so they are those of the promoted values."""
        if state.type == data_type:
            return state
        return State(state.kind, data_type, {"value": promote(state.parts["value"], data_type)})

    def finish(self, state: State, rows: int) -> pa.Array:
        return state.parts["value"]

    def check(self, state: State, rows: int) -> None:
        """Check that there is exactly one column, of the value type."""
        column = state.parts.get("value")
        if len(state.parts) != 1 or not isinstance(column, pa.Array) or column.type != state.type:
            raise ValueError(f"a {self.kind} has columns {sorted(state.parts)}")
        check_keys(column)


class ExtremeAccumulator(Accumulator):
    """Extreme of each group, by the comparison of its type."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        self.type = data_type
        self._kind = kind
        self._best = self._holder(data_type)

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values.

        Cost: one comparison for fixed widths; more for other values that are not clearly worse.
        """
        if self._best is None:
            return
        column = one_column(values)
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        self._best.add(column, ids, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        self.add(state.parts["value"], ids, groups)

    def freeze(self, groups: int) -> State:
        column = pa.nulls(groups) if self._best is None else self._best.column(groups)
        return State(self._kind, self.type, {"value": column})

    def clear(self) -> None:
        if self._best is not None:
            self._best.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Convert integers to floats in place; decimals of one scale are unchanged."""
        if data_type == self.type:
            return
        old, self.type = self._best, data_type
        if isinstance(old, Records):
            old.type = data_type
            return
        self._best = self._holder(data_type)
        if isinstance(old, _Integers) and (groups := old.groups):
            self.add(promote(old.column(groups), data_type), np.arange(groups), groups)

    @property
    def nbytes(self) -> int:
        return 0 if self._best is None else self._best.nbytes

    def _holder(self, data_type: pa.DataType) -> _Integers | Records | None:
        if pa.types.is_null(data_type):
            return None
        greatest = self._kind == "max"
        if is_orderable_as_int(data_type):
            return _Integers(data_type, greatest)
        return Records(data_type, greatest)


class _Integers:
    """Extremes of values that are ordered like one int64, compared in place."""

    def __init__(self, data_type: pa.DataType, greatest: bool) -> None:
        self.type = data_type
        self._greatest = greatest
        self._float = pa.types.is_floating(data_type)
        self._nothing = _INT64.min if greatest else _INT64.max
        self._best = Growing(self._nothing)
        # Groups whose extreme equals the integer that marks none; allocated when the first one is seen.
        self._found: Growing | None = None

    @property
    def groups(self) -> int:
        return self._best.used

    def add(self, values: pa.Array, ids: np.ndarray, groups: int) -> None:
        ranks = to_int64(values)[0]
        if self._float:
            compete = kernel.active.greatest_floats if self._greatest else kernel.active.least_floats
            compete(ids, ranks.view(np.float64), self._best.reach(groups))
            return
        if len(ranks) and (ranks.max() if not self._greatest else ranks.min()) == self._nothing:
            self._found = self._found or Growing()
            self._found.reach(groups)[ids[ranks == self._nothing]] = 1
        scatter = kernel.active.greatest if self._greatest else kernel.active.least
        scatter(ids, ranks, self._best.reach(groups))

    def column(self, groups: int) -> pa.Array:
        best = self._best.head(groups)
        found = best != self._nothing
        if self._found is not None:
            found |= self._found.head(groups) != 0
        return from_int64(float_rank(best) if self._float else best.copy(), found, self.type)

    def clear(self) -> None:
        self._best.clear()
        self._found = None

    @property
    def nbytes(self) -> int:
        return self._best.nbytes + (0 if self._found is None else self._found.nbytes)

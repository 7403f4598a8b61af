"""first and last: the value of the record with the least or greatest `by`.

Of records with one `by` a value beats null, then the least (first) or greatest (last) value wins: so the
result does not depend on the order in which records and partials come. Records without a `by` are ignored.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import is_orderable_as_int, promote, to_int64, type_name, valid_mask
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values
from elfmesh.cbt.laws.records import Records
from elfmesh.errors import DataError

_MICROS_PER_DAY = 86_400_000_000


class First(Law):
    """first or last; inputs are (value, by).

    `by` is a time or an integer and compared as one integer, times in microseconds.
    """

    inputs = 2

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def value_type(self, values: Values, name: str) -> pa.DataType:
        """The type of the values."""
        assert isinstance(values, tuple)
        value, by = values
        if pa.types.is_floating(by.type) or not (is_orderable_as_int(by.type) or pa.types.is_null(by.type)):
            raise DataError(
                f"{self.kind} {name!r} is ordered by a column of type {type_name(by.type)}",
                hint="Order it by a time or an integer, for example CAST(x AS TIMESTAMP).",
            )
        return value.type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """24 bytes per group and the value."""
        return FirstAccumulator(self.kind, data_type)

    def finish(self, state: State, rows: int) -> pa.Array:
        """The value."""
        return state.parts["value"]

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Promotion keeps the order of values, so also which of two with one `by` wins."""
        if state.type == data_type:
            return state
        return State(
            state.kind, data_type, {**state.parts, "value": promote(state.parts["value"], data_type)}
        )

    def check(self, state: State, rows: int) -> None:
        """Three columns; a group without a record holds nothing."""
        value = state.parts.get("value")
        if set(state.parts) != {"seen", "by", "value"} or not isinstance(value, pa.Array):
            raise ValueError(f"a {self.kind} has columns {sorted(state.parts)}")
        seen, by = state.parts["seen"], state.parts["by"]
        if value.type != state.type or not isinstance(seen, np.ndarray) or not isinstance(by, np.ndarray):
            raise ValueError(f"a {self.kind} has columns of other types")
        if ((seen != 0) & (seen != 1)).any() or (
            (seen == 0) & ((by != 0) | np.asarray(value.is_valid()))
        ).any():
            raise ValueError(f"a {self.kind} has a value without a record")


class FirstAccumulator(Accumulator):
    """The winning record of each group."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        self.type = data_type
        self._kind = kind
        self._records = self._holder(data_type)

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """One comparison for records that come too late; more for others."""
        assert isinstance(values, tuple)
        value, by = values
        if pa.types.is_null(by.type):
            return
        times = to_int64(by)[0]
        if pa.types.is_date32(by.type):
            times = times * _MICROS_PER_DAY
        if (valid := valid_mask(by)) is not None:
            value, times, ids = value.filter(pa.array(valid)), times[valid], ids[valid]
        self._compete(value, times, ids, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        """The first of firsts."""
        rows = np.flatnonzero(state.parts["seen"])
        value, times = state.parts["value"], state.parts["by"]
        if len(rows) != len(ids):
            value, times, ids = value.take(pa.array(rows)), times[rows], ids[rows]
        self._compete(value, times, ids, groups)

    def freeze(self, groups: int) -> State:
        """Copies; groups without a record hold zeros and nulls."""
        seen = self._records.found(groups)
        (by,) = self._records.words(groups)
        by = np.where(seen, ~by if self._kind == "last" else by, 0)
        parts = {"seen": seen.astype(np.int64), "by": by, "value": self._records.column(groups)}
        return State(self._kind, self.type, parts)

    def clear(self) -> None:
        """No records."""
        self._records.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Integers and nulls become what they are promoted to; decimals of one scale stay."""
        if data_type == self.type:
            return
        old, groups = self._records, self._records.groups
        state = self.freeze(groups) if groups else None
        self.type = data_type
        if pa.types.is_decimal(old.type) and pa.types.is_decimal(data_type):
            old.type = data_type
            return
        self._records = self._holder(data_type)
        if state is not None:
            self.merge(First(self._kind).promote(state, data_type), np.arange(groups), groups)

    @property
    def nbytes(self) -> int:
        """Of the records."""
        return self._records.nbytes

    def _compete(self, value: pa.Array, times: np.ndarray, ids: np.ndarray, groups: int) -> None:
        self._records.add(value, ids, groups, [~times if self._kind == "last" else times])

    def _holder(self, data_type: pa.DataType) -> Records:
        return Records(data_type, self._kind == "last", words=1, nulls=True)

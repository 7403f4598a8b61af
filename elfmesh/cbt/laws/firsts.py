"""first and last: the value of the record with the least or greatest `by`, a time or a number.

A number is stored as the nearest float and the rest, so that integers and floats, which may occur in one
column, are ordered exactly. Among records with equal `by`, a value has priority over null, and then the least
(first) or greatest (last) value wins, so that the result does not depend on the order of records and
partials. Records without a `by` are ignored.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import is_orderable_as_int, promote, to_int64, type_name, valid_mask
from elfmesh.cbt.kernel.ranks import float_rank
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values
from elfmesh.cbt.laws.records import Records
from elfmesh.cbt.nested import check_keys
from elfmesh.errors import DataError

_INT64 = np.iinfo(np.int64)
_MICROS_PER_DAY = 86_400_000_000


class First(Law):
    """first or last; the inputs are (value, by).

    `by` is a time, a boolean or a number; times are compared as integers, in microseconds; NaN is the
    greatest number.
    """

    inputs = 2

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def value_type(self, values: Values, name: str) -> pa.DataType:
        assert isinstance(values, tuple)
        value, by = values
        if not (is_orderable_as_int(by.type) or pa.types.is_null(by.type)):
            raise DataError(
                f"{self.kind} {name!r} is ordered by a column of type {type_name(by.type)}",
                hint="Order it by a time or a number, for example CAST(x AS TIMESTAMP).",
            )
        return value.type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with 32 bytes per group and the value."""
        return FirstAccumulator(self.kind, data_type)

    def finish(self, state: State, rows: int) -> pa.Array:
        return state.parts["value"]

    def partial(self, state: State, rows: int) -> dict[str, pa.Array]:
        """Return the value and its order as a number: for a time, microseconds since the epoch.

        The order is null for a record without a time, which is at an end of the range.
        """
        seen, by, rest = (np.asarray(state.parts[name]) for name in ("seen", "by", "rest"))
        at = float_rank(by).view(np.float64) + rest
        untimed = (seen == 0) | (np.abs(at) >= 2.0**63)
        return {"": state.parts["value"], "at": pa.array(at, pa.float64(), mask=untimed)}

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Promote the values: promotion keeps their order, so also which of two with equal `by` wins."""
        if state.type == data_type:
            return state
        return State(
            state.kind, data_type, {**state.parts, "value": promote(state.parts["value"], data_type)}
        )

    def check(self, state: State, rows: int) -> None:
        """Check the four columns; they must be empty for a group without a record."""
        value = state.parts.get("value")
        if set(state.parts) != {"seen", "by", "rest", "value"} or not isinstance(value, pa.Array):
            raise ValueError(f"a {self.kind} has columns {sorted(state.parts)}")
        seen, by, rest = (state.parts[name] for name in ("seen", "by", "rest"))
        if value.type != state.type or not all(isinstance(part, np.ndarray) for part in (seen, by, rest)):
            raise ValueError(f"a {self.kind} has columns of other types")
        if ((seen != 0) & (seen != 1)).any() or (
            (seen == 0) & ((by != 0) | (rest != 0) | np.asarray(value.is_valid()))
        ).any():
            raise ValueError(f"a {self.kind} has a value without a record")
        check_keys(value)


class FirstAccumulator(Accumulator):
    """Winning record of each group."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        self.type = data_type
        self._kind = kind
        self._records = self._holder(data_type)

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Let records compete. Cost: one comparison for records that lose by `by`; more for others."""
        assert isinstance(values, tuple)
        value, by = values
        if pa.types.is_null(by.type):
            return
        words = _words(by)
        if (valid := valid_mask(by)) is not None:
            value, ids = value.filter(pa.array(valid)), ids[valid]
            words = [word[valid] for word in words]
        self._compete(value, words, ids, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        rows = np.flatnonzero(state.parts["seen"])
        value, words = state.parts["value"], [state.parts[name] for name in ("by", "rest")]
        if len(rows) != len(ids):
            value, ids = value.take(pa.array(rows)), ids[rows]
            words = [word[rows] for word in words]
        self._compete(value, words, ids, groups)

    def freeze(self, groups: int) -> State:
        """Return copies; groups without a record have zeros and nulls."""
        seen = self._records.found(groups)
        by, rest = (
            np.where(seen, ~word if self._kind == "last" else word, 0) for word in self._records.words(groups)
        )
        value = self._records.column(groups)
        parts = {"seen": seen.astype(np.int64), "by": by, "rest": rest, "value": value}
        return State(self._kind, self.type, parts)

    def clear(self) -> None:
        self._records.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Promote integers and nulls; decimals of one scale are unchanged."""
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
        return self._records.nbytes

    def _compete(self, value: pa.Array, words: list[np.ndarray], ids: np.ndarray, groups: int) -> None:
        self._records.add(value, ids, groups, [~word for word in words] if self._kind == "last" else words)

    def _holder(self, data_type: pa.DataType) -> Records:
        return Records(data_type, self._kind == "last", words=2, nulls=True)


def _words(by: pa.Array) -> list[np.ndarray]:
    """Return two int64[n]: the rank of the nearest float, and an integer's distance from that float."""
    numbers = to_int64(by)[0]
    if pa.types.is_floating(by.type):
        return [float_rank(numbers), np.zeros(len(numbers), np.int64)]
    if pa.types.is_date32(by.type):
        numbers = numbers * _MICROS_PER_DAY
    floats = numbers.astype(np.float64)
    # 2**63 as a float exceeds int64; it is subtracted from both sides, which keeps the distance.
    edge = floats >= 2.0**63
    rest = np.where(edge, numbers - _INT64.max - 1, numbers - np.where(edge, 0.0, floats).astype(np.int64))
    return [float_rank(floats.view(np.int64)), rest]

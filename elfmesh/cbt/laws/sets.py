"""distinct, collect and set: the values of a group, counted once each, or the least n of them.

Both depend only on the multiset of values, and not on their order or the shape of the tree.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, canonical_floats, is_bytes, promote, valid_mask
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.blobs import check_binary, count_values, pack_values, unpack_values
from elfmesh.cbt.laws.pairs import VALUE_BYTES_MAX, Pairs, check_lengths
from elfmesh.cbt.nested import check_keys, is_nested_key, nested_values

COLLECT_DEFAULT, COLLECT_MAX = 100, 10_000
_PAIRS_MIN = 1 << 16


class KeepsValues(Law):
    """Law whose states contain values of the column, of any type and up to VALUE_BYTES_MAX long."""

    def value_type(self, values: Values, name: str) -> pa.DataType:
        column = one_column(values)
        check_lengths(column, self.kind, name)
        return column.type


class Distinct(KeepsValues):
    """Exact count of distinct values that are not null.

    The state is a set of values per group; hll is smaller.
    """

    kind = "distinct"

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with about 40 bytes per value, plus the value."""
        return ListAccumulator(self.kind, data_type, None)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return int64."""
        return pa.array(count_values(state.parts["items"], state.type), pa.int64())

    def check(self, state: State, rows: int) -> None:
        check_parts(state, {"items"})
        checked_items(state)


class Collect(KeepsValues):
    """The least `limit` values of a group that are not null, in order, with duplicates: array_agg."""

    name, repeats = "collect", True

    def __init__(self, limit: int = COLLECT_DEFAULT) -> None:
        if limit > COLLECT_MAX:
            raise ValueError(f"{self.name} keeps up to {COLLECT_MAX} values per group, not {limit}")
        self.limit = limit
        self.kind = self.name if limit == COLLECT_DEFAULT else f"{self.name}:{limit}"

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with about 50 bytes per value, plus the value."""
        return ListAccumulator(self.kind, data_type, self.limit, self.repeats)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return a list of the values' type, empty without values."""
        values, owners = unpack_values(state.parts["items"], state.type)
        cuts = np.searchsorted(owners, np.arange(rows + 1)).astype(np.int32)
        shown = nested_values(values) if is_nested_key(values.type) else values
        return pa.ListArray.from_arrays(pa.array(cuts), shown)

    def check(self, state: State, rows: int) -> None:
        check_parts(state, {"items"})
        _, owners = checked_items(state)
        if len(owners) and int(np.bincount(owners).max()) > self.limit:
            raise ValueError(f"a {self.kind} has more values")


class CollectSet(Collect):
    """The least `limit` distinct values of a group, in order: collect_set."""

    name, repeats = "set", False


def check_parts(state: State, names: set[str]) -> None:
    if set(state.parts) != names:
        raise ValueError(f"a {state.kind} has columns {sorted(state.parts)}")


def checked_items(state: State) -> tuple[pa.Array, np.ndarray]:
    """Return the values of a state from outside, and their groups.

    Raises:
        ValueError: They are not valid values of their type.
    """
    column = check_binary(state.parts["items"], "a list of values")
    values, owners = unpack_values(column, state.type)
    values.validate(full=True)  # pa.ArrowInvalid is a ValueError
    check_keys(values)
    if is_bytes(values.type) and (np.diff(byte_layout(values)[0]) > VALUE_BYTES_MAX).any():
        raise ValueError(f"a {state.kind} has a value over {VALUE_BYTES_MAX} bytes")
    if pa.types.is_floating(state.type) and canonical_floats(values) is not values:
        raise ValueError("a float that is -0.0 or a NaN that is not canonical")
    return values, owners


class ListAccumulator(Accumulator):
    """Pairs of group and value; with a limit only the least values of a group, with counts if they repeat."""

    def __init__(self, kind: str, data_type: pa.DataType, limit: int | None, repeats: bool = False) -> None:
        self.type = data_type
        self._kind = kind
        self._limit = limit
        self._repeats = repeats
        self._pairs = self._holder(data_type)
        self._pairs_max = _PAIRS_MIN
        self._groups = 0

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values. Cost: an upsert per value; occasionally values beyond the limit are dropped."""
        column = one_column(values)
        self._groups = max(self._groups, groups)
        if self._pairs is None or pa.types.is_null(column.type):
            return
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        self._pairs.add(column, ids)
        if self._limit is not None and self._pairs.rows > self._pairs_max:
            self._trim()

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        values, owners = unpack_values(state.parts["items"], state.type)
        self.add(values, ids[owners], groups)

    def freeze(self, groups: int) -> State:
        """Return lists in order. Cost: a sort of all values."""
        if self._pairs is None:
            values, owners = pa.nulls(0), np.zeros(0, np.int64)
        else:
            values, owners = self._least()
        return State(self._kind, self.type, {"items": pack_values(values, owners, groups)})

    def clear(self) -> None:
        if self._pairs is not None:
            self._pairs.clear()
        self._pairs_max, self._groups = _PAIRS_MIN, 0

    def promote(self, data_type: pa.DataType) -> None:
        """Promote the values; those that become equal are merged."""
        if data_type == self.type:
            return
        old, state = self.type, self.freeze(self._groups)
        self.type, self._pairs = data_type, self._holder(data_type)
        if not pa.types.is_null(old):
            values, owners = unpack_values(state.parts["items"], old)
            self.add(promote(values, data_type), owners, self._groups)

    @property
    def nbytes(self) -> int:
        return 0 if self._pairs is None else self._pairs.nbytes

    def _holder(self, data_type: pa.DataType) -> Pairs | None:
        if pa.types.is_null(data_type):
            return None
        return Pairs(data_type, counted=self._repeats)

    def _least(self) -> tuple[pa.Array, np.ndarray]:
        """Return the values of all groups and their groups, in order, up to the limit."""
        assert self._pairs is not None
        owners, values, counts = self._pairs.sorted()
        if self._limit is None:
            return values, owners
        counts = np.minimum(counts, self._limit)
        places = np.repeat(np.arange(len(counts)), counts)
        of = owners[places]
        starts = np.searchsorted(of, of)
        places = places[np.arange(len(places)) - starts < self._limit]
        return values.take(pa.array(places)), owners[places]

    def _trim(self) -> None:
        assert self._pairs is not None
        values, owners = self._least()
        self._pairs.clear()
        self._pairs.add(values, owners)
        self._pairs_max = max(_PAIRS_MIN, 2 * self._pairs.rows)

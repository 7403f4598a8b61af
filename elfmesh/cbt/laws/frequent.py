"""frequent: the most frequent values, with bounds on their counts, in Apache DataSketches' format.

A group counts up to m values exactly. If there are more, the count of the (m + 1)-th most frequent one is
subtracted from all, values with nothing left are dropped, and the error bound grows by the same amount. A
value that occurs in more than n / (m + 1) of the records is never lost (Misra and Gries; merged as by Agarwal
et al., "Mergeable summaries", PODS 2012). Counts are too low by at most `error`.

Equal states merged in the same way, in either order, give equal bytes; up to m values everything is exact.
Beyond, (a + b) + c and a + (b + c) may differ within the bounds.

Owns the counters of all groups. Does not depend on how many of them a query shows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import byte_layout, decimal_words, is_bytes, promote, to_int64, valid_mask
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.laws.base import Accumulator, State, Values, one_column
from elfmesh.cbt.laws.blobs import check_binary, pack_values, pack_words, unpack_values, unpack_words
from elfmesh.cbt.laws.pairs import Pairs
from elfmesh.cbt.laws.sets import KeepsValues, check_parts, checked_items

COUNTERS_DEFAULT, COUNTERS_MAX = 1000, 10_000
_PAIRS_MIN = 1 << 16
_FAMILY, _VERSION, _EMPTY, _LOG_MIN = 10, 1, 5, 3
_COUNTS = np.dtype("<i8")


class Frequent(KeepsValues):
    """The most frequent values.

    Args:
        counters: m, the number of values that a group counts.
    """

    name = "frequent"

    def __init__(self, counters: int = COUNTERS_DEFAULT) -> None:
        if counters > COUNTERS_MAX:
            raise ValueError(f"{self.name} counts up to {COUNTERS_MAX} values per group, not {counters}")
        self.counters = counters
        self.kind = self.name if counters == COUNTERS_DEFAULT else f"{self.name}:{counters}"

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with about 50 bytes per counter and its value."""
        return FrequentAccumulator(self.kind, data_type, self.counters)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return sketches in Apache DataSketches' format (frequent items), binary."""
        values, owners = unpack_values(state.parts["items"], state.type)
        counts, _ = unpack_words(state.parts["counts"], _COUNTS)
        cuts = np.searchsorted(owners, np.arange(rows + 1)).tolist()
        totals, errors = state.parts["n"].tolist(), state.parts["error"].tolist()
        return pa.array(
            [
                _sketch(self.counters, totals[row], errors[row], counts[a:b], values[a:b])
                for row, (a, b) in enumerate(pairwise(cuts))
            ],
            pa.binary(),
        )

    def check(self, state: State, rows: int) -> None:
        """Check that there are as many positive counters as values, with a sum of at most n."""
        check_parts(state, {"n", "error", "items", "counts"})
        total, error = state.parts["n"], state.parts["error"]
        if not isinstance(total, np.ndarray) or not isinstance(error, np.ndarray):
            raise ValueError(f"a {self.kind} without its totals")
        _, owners = checked_items(state)
        column = check_binary(state.parts["counts"], "counters")
        counts, count_owners = unpack_words(column, _COUNTS)
        if not np.array_equal(owners, count_owners):
            raise ValueError(f"a {self.kind} has not as many counters as values")
        if (counts <= 0).any() or (error < 0).any() or (counts > total[owners]).any():
            raise ValueError(f"a {self.kind} has counters out of range")
        if len(owners) and int(np.bincount(owners).max()) > self.counters:
            raise ValueError(f"a {self.kind} has too many counters")
        # Each count is at most n < 2**63, and there are at most 10,000, so their sums as floats cannot
        # overflow.
        sums = np.bincount(owners, counts.astype(np.float64), minlength=rows) + error
        if (sums > total * (1 + 2.0**-40)).any():
            raise ValueError(f"a {self.kind} counts more than its n")


class Top(Frequent):
    """Counters of `Frequent`, finished as a list: the most frequent value first, ties by value."""

    name = "top"

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return list<struct<item, count: int64>>; counts are too low by at most the state's error."""
        values, owners = unpack_values(state.parts["items"], state.type)
        counts, _ = unpack_words(state.parts["counts"], _COUNTS)
        cuts = np.searchsorted(owners, np.arange(rows + 1)).astype(np.int32)
        order = np.lexsort((-counts, owners))  # stable, and the values of a group ascend
        pairs = [values.take(pa.array(order)), pa.array(counts[order], pa.int64())]
        return pa.ListArray.from_arrays(pa.array(cuts), pa.StructArray.from_arrays(pairs, ["item", "count"]))


class FrequentAccumulator(Accumulator):
    """Counted pairs of group and value; excess ones are dropped from time to time."""

    def __init__(self, kind: str, data_type: pa.DataType, counters: int) -> None:
        self.type = data_type
        self._kind = kind
        self._counters = counters
        self._total, self._error = Growing(), Growing()
        self._pairs = self._holder(data_type)
        self._pairs_max = _PAIRS_MIN

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values. Cost: an upsert per value; occasionally values beyond the counters are dropped."""
        column = one_column(values)
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        kernel.active.count(ids, self._total.reach(groups))
        self._add_pairs(column, ids, None, groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        kernel.active.add(ids, state.parts["n"], self._total.reach(groups))
        kernel.active.add(ids, state.parts["error"], self._error.reach(groups))
        values, owners = unpack_values(state.parts["items"], state.type)
        counts, _ = unpack_words(state.parts["counts"], _COUNTS)
        self._add_pairs(values, ids[owners], counts, groups)

    def freeze(self, groups: int) -> State:
        """Return lists in the order of the values. Cost: a sort of all values."""
        if self._pairs is None:
            values, owners, counts = pa.nulls(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        else:
            owners, values, counts = self._thin(groups)
        parts = {
            "n": self._total.head(groups).copy(),
            "error": self._error.head(groups).copy(),
            "items": pack_values(values, owners, groups),
            "counts": pack_words(counts, owners, groups),
        }
        return State(self._kind, self.type, parts)

    def clear(self) -> None:
        self._total.clear()
        self._error.clear()
        if self._pairs is not None:
            self._pairs.clear()
        self._pairs_max = _PAIRS_MIN

    def promote(self, data_type: pa.DataType) -> None:
        """Promote the values, and add the counts of those that become equal."""
        if data_type == self.type:
            return
        old, groups = self._pairs, self._total.used
        self.type, self._pairs = data_type, self._holder(data_type)
        if old is not None and self._pairs is not None:
            owners, values, counts = old.sorted()
            self._add_pairs(promote(values, data_type), owners, counts, groups)

    @property
    def nbytes(self) -> int:
        pairs = 0 if self._pairs is None else self._pairs.nbytes
        return pairs + self._total.nbytes + self._error.nbytes

    def _holder(self, data_type: pa.DataType) -> Pairs | None:
        return None if pa.types.is_null(data_type) else Pairs(data_type, counted=True)

    def _add_pairs(self, values: pa.Array, ids: np.ndarray, counts: np.ndarray | None, groups: int) -> None:
        self._error.reach(groups)
        if self._pairs is None or len(ids) == 0:
            return
        self._pairs.add(values, ids, counts)
        if self._pairs.rows > self._pairs_max:
            self._thin(groups)
            self._pairs_max = max(_PAIRS_MIN, 2 * self._pairs.rows)

    def _thin(self, groups: int) -> tuple[np.ndarray, pa.Array, np.ndarray]:
        """Subtract from every group with too many values the count of the first excess one.

        Returns the rest.
        """
        assert self._pairs is not None
        owners, values, counts = self._pairs.sorted()
        falling = np.lexsort((-counts, owners))
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        many = np.diff(starts, append=len(owners)) > self._counters
        if not many.any():
            return owners, values, counts
        cut = np.zeros(max(groups, int(owners[-1]) + 1), np.int64)
        cut[owners[starts[many]]] = counts[falling[starts[many] + self._counters]]
        self._error.reach(len(cut))[: len(cut)] += cut
        counts = counts - cut[owners]
        left = np.flatnonzero(counts > 0)
        owners, values, counts = owners[left], values.take(pa.array(left)), counts[left]
        self._pairs.clear()
        self._pairs.add(values, owners, counts)
        return owners, values, counts


def _sketch(counters: int, total: int, error: int, counts: np.ndarray, values: pa.Array) -> bytes:
    """Return one sketch in the library's format; its hash map is at most three quarters full."""
    size = _LOG_MIN
    while 3 << size < 4 * counters:
        size += 1
    if len(counts) == 0:
        return bytes([1, _VERSION, _FAMILY, size, _LOG_MIN, _EMPTY, 0, 0])
    current = _LOG_MIN
    while 3 << current < 4 * len(counts):
        current += 1
    head = bytes([4, _VERSION, _FAMILY, size, current, 0, 0, 0]) + len(counts).to_bytes(8, "little")
    head += total.to_bytes(8, "little") + error.to_bytes(8, "little") + counts.tobytes()
    return head + _items(values)


def _items(values: pa.Array) -> bytes:
    """Encode strings with their lengths before them.

    Numbers and times take eight bytes each, decimals sixteen.
    """
    if pa.types.is_decimal(values.type):
        return np.ascontiguousarray(decimal_words(values)).tobytes()
    if not is_bytes(values.type):
        return to_int64(values)[0].tobytes()
    offsets, data = byte_layout(values)
    return b"".join(
        (end - start).to_bytes(4, "little") + data[start:end].tobytes()
        for start, end in pairwise(offsets.tolist())
    )

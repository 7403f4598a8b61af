"""Values computed from one parsed block, shared by the queries of all jobs.

Each value (widened column, event times, pane indices, expression, selected rows) is computed once per block.
It depends only on the block, the rows and the expression, so two threads may compute it twice and keep
either. A condition that keeps all rows returns the same `BlockRows`. This module does not depend on jobs or
on the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from elfmesh.arrow_kernels import pc
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.values.columns import Bools, Value, null_mask
from elfmesh.ql.values.growth import Growth
from elfmesh.ql.values.times import to_timestamp_us

Ints = npt.NDArray[np.int64]
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
RUNS_MAX = 64
"""Maximum number of runs of equal panes in row order that are counted one by one, with a call each."""

SPREAD_MAX = 4
"""Maximum number of slots per row of the array in which panes are counted; above it, the panes are sorted."""


class Times(Struct, frozen=True):
    """Event times of some rows: int64 microseconds, rows without a time (None: all have one), extremes."""

    values: Ints
    missing: Bools | None
    least: int | None
    largest: int | None


class PaneIndices(Struct, frozen=True):
    """Panes of rows, counts ascending by pane; `in_order` is true if the rows are in the order of panes."""

    indices: Ints
    counts: Mapping[int, int]
    in_order: bool = False


class _Values(dict[Hashable, Value]):
    """Cache of expressions' values over some rows.

    A value that a larger selection has is filtered, not recomputed.
    """

    __slots__ = ("_mask", "_outer")

    def __init__(self, outer: _Values | None = None, mask: pa.Array | None = None) -> None:
        super().__init__()
        self._outer, self._mask = outer, mask

    def get(self, key: Hashable, default: Any = None) -> Any:
        found = super().get(key)
        if found is None and self._outer is not None:
            found = self._outer.get(key)
            if found is not None:
                found = self[key] = found if isinstance(found, pa.Scalar) else found.filter(self._mask)
        return default if found is None else found


class BlockRows:
    """Rows of one parsed block, in the block's order; `bounded` limits the size of expressions' values."""

    def __init__(self, columns: Mapping[str, pa.Array], rows: int, *, bounded: bool = True) -> None:
        self.rows = rows
        self._source = columns
        self._columns: dict[str, pa.Array] = {}
        self._times: dict[str, Times] = {}
        self._panes: dict[tuple[str, int], PaneIndices] = {}
        self._parts: dict[Hashable, BlockRows] = {}
        self._outer: BlockRows | None = None
        self._mask: pa.Array | None = None
        self._keep: Bools | None = None
        self.values = _Values()
        self._growth = Growth() if bounded else None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> BlockRows:
        return cls(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)

    def column(self, name: str) -> pa.Array | None:
        """Return a column widened to its ELF-QL type (nested types unchanged).

        Returns None if the block does not have it.
        """
        known = self._columns.get(name)
        if known is None:
            if self._outer is None:
                known = read_column(self._source[name]) if name in self._source else None
            else:
                known = self._outer.column(name)
                known = None if known is None else known.filter(self._mask)
            if known is not None:
                self._columns[name] = known
        return known

    def env(self, names: tuple[str, ...]) -> Env:
        columns = {name: column for name in names if (column := self.column(name)) is not None}
        return Env(columns, self.rows, shared=self.values, growth=self._growth)

    @property
    def dated(self) -> Mapping[str, Times]:
        """Return the event times that were computed, by column."""
        return self._times

    def times(self, name: str) -> Times:
        """Return a column as event times. Cost: one conversion per block, one selection per condition."""
        known = self._times.get(name)
        if known is None:
            known = self._times[name] = self._read_times(name)
        return known

    def panes(self, name: str, width_us: int) -> PaneIndices:
        known = self._panes.get((name, width_us))
        if known is None:
            outer = self._outer
            if outer is not None and outer.times(name).missing is None:
                known = _kept_panes(outer.panes(name, width_us), self._kept())
            else:
                times = self.times(name)
                assert times.missing is None, "rows without a time are in no pane"
                known = _pane_indices(times, width_us)
            self._panes[name, width_us] = known
        return known

    def within(self, name: str, least_us: int, most_us: int) -> BlockRows:
        """Return the rows whose event time exists and is in [least_us, most_us]."""
        times = self.times(name)
        inside = (
            times.least is None
            or times.largest is None
            or (times.least >= least_us and times.largest <= most_us)
        )
        if inside and times.missing is None:
            return self

        def mask() -> pa.Array:
            fits: Bools = (times.values >= max(least_us, INT64_MIN)) & (
                times.values <= min(most_us, INT64_MAX)
            )
            return pa.array(fits if times.missing is None else fits & ~times.missing)

        return self.where((name, least_us, most_us), mask)

    def where(self, key: Hashable, condition: Callable[[], pa.Array]) -> BlockRows:
        """Return the rows for which a condition is true (not null). Equal keys must mean equal conditions."""
        part = self._parts.get(key)
        if part is None:
            mask = condition()
            passed = mask.true_count
            part = self._parts[key] = self if passed == self.rows else self._part(mask, passed)
        return part

    def beside(self, columns: Mapping[str, pa.Array], names: Iterable[str]) -> BlockRows:
        own = {name: column for name in names if (column := self.column(name)) is not None}
        wider = BlockRows({**own, **columns}, self.rows, bounded=self._growth is not None)
        wider._times = dict(self._times)
        return wider

    def among(self, around: BlockRows) -> Bools:
        """Return bool[around.rows]: the rows of `around` that these are.

        `where` must have selected these from `around`.
        """
        if self is around:
            return np.ones(self.rows, dtype=np.bool_)
        assert self._outer is around, "these are not some of those rows"
        return self._kept()

    def selected(self, keep: Bools) -> BlockRows:
        return self._part(pa.array(keep), int(np.count_nonzero(keep)))

    def release(self) -> None:
        """Drop the computed values.

        A selection and its source refer to each other. Without this call, only the garbage collector would
        free the block.
        """
        parts, self._parts = self._parts, {}
        for part in parts.values():
            if part is not self:
                part.release()

    def without(self, places: npt.NDArray[np.int64]) -> BlockRows:
        keep = np.ones(self.rows, dtype=np.bool_)
        keep[places] = False
        return self.selected(keep)

    def halves(self) -> tuple[BlockRows, BlockRows]:
        self.values.clear()
        self._growth = Growth()
        first = np.arange(self.rows) < self.rows // 2
        return self.selected(first), self.selected(~first)

    def _part(self, mask: pa.Array, passed: int) -> BlockRows:
        part = BlockRows({}, passed, bounded=self._growth is not None)
        part._outer, part._mask = self, mask
        part.values = _Values(self.values, mask)
        return part

    def _kept(self) -> Bools:
        if self._keep is None:
            mask = self._mask
            assert mask is not None, "these are not some of other rows"
            filled = pc.fill_null(mask, False) if mask.null_count else mask
            self._keep = np.asarray(filled.to_numpy(zero_copy_only=False))
        return self._keep

    def _read_times(self, name: str) -> Times:
        if self._outer is not None:
            outer = self._outer.times(name)
            keep = self._kept()
            missing = None if outer.missing is None else outer.missing[keep]
            return _times(outer.values[keep], missing)
        column = self.column(name)
        stamps = to_timestamp_us(pa.nulls(self.rows) if column is None else column)
        missing = null_mask(stamps) if stamps.null_count else None
        plain = stamps.view(pa.int64())
        return _times(np.asarray((plain.fill_null(0) if stamps.null_count else plain).to_numpy()), missing)


def _times(values: Ints, missing: Bools | None) -> Times:
    if missing is not None and not missing.any():
        missing = None
    usable = values if missing is None else values[~missing]
    if not len(usable):
        return Times(values, missing, None, None)
    return Times(values, missing, int(usable.min()), int(usable.max()))


def _pane_indices(times: Times, width_us: int) -> PaneIndices:
    rows = len(times.values)
    if times.least is None or times.largest is None:
        return PaneIndices(np.zeros(0, np.int64), {})
    first, last = times.least // width_us, times.largest // width_us
    if first == last:
        return PaneIndices(np.broadcast_to(np.int64(first), (rows,)), {first: rows})
    indices: Ints = times.values // width_us
    ascending = bool((indices[1:] >= indices[:-1]).all())
    return PaneIndices(indices, count_panes(indices, first, last), ascending)


def _kept_panes(around: PaneIndices, keep: Bools) -> PaneIndices:
    rows = int(np.count_nonzero(keep))
    if not rows:
        return PaneIndices(np.zeros(0, np.int64), {})
    first, last = min(around.counts), max(around.counts)
    if first == last:
        return PaneIndices(np.broadcast_to(np.int64(first), (rows,)), {first: rows})
    if around.in_order and len(around.counts) <= RUNS_MAX:
        counts = _kept_counts(around.counts, keep)
        return PaneIndices(np.repeat(list(counts), list(counts.values())), counts, in_order=True)
    indices: Ints = around.indices[keep]
    return PaneIndices(indices, count_panes(indices, first, last), around.in_order)


def _kept_counts(counts: Mapping[int, int], keep: Bools) -> dict[int, int]:
    """Return the number of selected rows of each run of a pane; panes without a selected row are absent."""
    left, start = {}, 0
    for pane, rows in counts.items():
        if kept := int(np.count_nonzero(keep[start : start + rows])):
            left[pane] = kept
        start += rows
    return left


def count_panes(indices: Ints, first: int, last: int) -> dict[int, int]:
    """Count the rows per pane, ascending.

    Cost: one pass over the rows, or a sort if the panes are far apart.
    """
    if last - first <= SPREAD_MAX * len(indices):
        numbers = np.bincount(indices - first)
        panes = np.flatnonzero(numbers)
        return dict(zip((panes + first).tolist(), numbers[panes].tolist(), strict=True))
    values, numbers = np.unique(indices, return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))

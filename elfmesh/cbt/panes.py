"""Panes: one tree per pane and table, and windows as merges of panes.

A pane is gcd(slide, size) wide, so every window is a run of whole panes and every record is inserted once,
however many windows it counts in. Tumbling windows are one pane each. A hopping window merges its panes;
where all aggregates have an inverse and the window has many panes, the next window is the last one minus the
panes that left it plus the new.

Owns: which trees exist. Refuses to know: watermarks, lateness, when a window is complete.

Invariants:
    - `window(i)` equals one GROUP BY over the rows inserted into panes [i * slide, i * slide + size), in any
      order.
    - A batch that does not fit one of its panes changes none of them.

Paper: ELF 2.2 (interval results PAO5, PAO10, PAO15; "invertible reduce").
Deviation: the paper keeps one tree and subtracts snapshots of it; panes make sealing a window a pointer swap
(D-3) and let late records enter their own interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Protocol

import numpy as np
import pyarrow as pa

from elfmesh.cbt.kernel import grouping
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.limits import TreeLimits
from elfmesh.cbt.plan import Plan
from elfmesh.cbt.rows import Layout, Rows, combine, empty_rows, subtract_rows, to_table
from elfmesh.cbt.tree import CompressedBufferTree

SLIDE_PANES_MIN = 8
"""Panes of a window from which sliding by subtraction is used: it costs two passes over the whole window."""

IDLE_BYTES_MIN = 64 << 10
"""Open bytes of an older pane from which they are compressed: below, it would save nothing."""

_RECORDS = "\0records"
"""The count that says which groups remain after a subtraction, where the plan has none; never leaves here."""


class TableSpec(Protocol):
    """What a plan says of one table; any object with these attributes."""

    @property
    def name(self) -> str:
        """Name of the table."""
        ...

    @property
    def keys(self) -> Sequence[str]:
        """Key columns."""
        ...

    @property
    def aggregates(self) -> Mapping[str, tuple[str, str | None]]:
        """Aggregate name -> (kind, input)."""
        ...


@dataclass(slots=True)
class _Suffix:
    """The merged panes [first, stop) that the next window starts with, as long as none of them changes."""

    first: int
    stop: int
    versions: dict[int, int]
    rows: dict[str, Rows]


class Panes:
    """All open panes of one job at one agent.

    Args:
        tables: one per table of the plan.
        size_us: width of a window in microseconds of event time; None: no window, everything is pane 0.
        slide_us: distance of windows; None: the size.
        limits: of each tree.
        slide_panes_min: see SLIDE_PANES_MIN.
    """

    def __init__(
        self,
        tables: Sequence[TableSpec],
        size_us: int | None,
        slide_us: int | None = None,
        *,
        limits: TreeLimits | None = None,
        slide_panes_min: int = SLIDE_PANES_MIN,
    ) -> None:
        if size_us is None:
            self.pane_us, self._panes_per_window, self._panes_per_slide = 0, 1, 1
        else:
            slide_us = size_us if slide_us is None else slide_us
            if size_us <= 0 or slide_us <= 0:
                raise ValueError("a window needs a positive size and slide")
            self.pane_us = gcd(size_us, slide_us)
            self._panes_per_window = size_us // self.pane_us
            self._panes_per_slide = slide_us // self.pane_us
        overlap = self._panes_per_window - self._panes_per_slide
        self._slides = overlap > 0 and self._panes_per_window >= slide_panes_min
        self._slides = self._slides and all(
            LAWS[kind].invertible for table in tables for kind, _ in table.aggregates.values()
        )
        self._plans = {table.name: self._plan(table) for table in tables}
        if len(self._plans) != len(tables) or not tables:
            raise ValueError("panes need tables of distinct names")
        self._layouts = {
            table.name: Layout(
                tuple(table.keys), tuple((name, kind) for name, (kind, _) in table.aggregates.items())
            )
            for table in tables
        }
        self._limits = limits
        self._trees: dict[int, dict[str, CompressedBufferTree]] = {}
        # When a pane last changed; never reused, so that a pane begun anew is not taken for the dropped one.
        self._versions: dict[int, int] = {}
        self._insertions = 0
        self._suffix: _Suffix | None = None
        self._newest: int | None = None

    def insert(self, table_name: str, pane_indices: np.ndarray, batch: pa.RecordBatch) -> None:
        """Add a batch to the panes of its rows.

        Args:
            table_name: which table.
            pane_indices: int64[rows], floor(ts_us / pane_us) per row; all 0 without windows.
            batch: key and value columns of the table.

        Raises:
            ValueError: no such table, a missing column, or not one pane index per row.
            DataError: a column has no usable type (TypeConflict: or another than before). Nothing was added.

        Cost: one grouping of the whole batch, then a slice per pane.
        """
        self.insert_all({table_name: (pane_indices, batch)})

    def insert_all(self, batches: Mapping[str, tuple[np.ndarray, pa.RecordBatch]]) -> None:
        """`insert` into several tables: all of it or, when a type does not fit, nothing."""
        blocks = {name: self._blocks(name, panes, batch) for name, (panes, batch) in batches.items()}
        for name, parts in blocks.items():
            for pane, rows in parts:
                if pane in self._trees:
                    self._trees[pane][name].check_types(rows.types)
        for name, parts in blocks.items():
            self._add(name, parts)
        last = max((pane for parts in blocks.values() for pane, _ in parts), default=None)
        if last is not None and (self._newest is None or last > self._newest):
            self._newest = last
            self._compress_idle()

    def _blocks(
        self, name: str, pane_indices: np.ndarray, batch: pa.RecordBatch
    ) -> Sequence[tuple[int, Rows]]:
        plan = self._plans.get(name)
        if plan is None:
            raise ValueError(f"no table {name!r}, there are {sorted(self._plans)}")
        if len(pane_indices) != batch.num_rows:
            raise ValueError(f"{len(pane_indices)} pane indices for {batch.num_rows} rows")
        if batch.num_rows == 0:
            return []
        columns = plan.columns(batch)
        first, last = int(pane_indices.min()), int(pane_indices.max())
        if first == last:
            return [(first, _lift(plan, columns, batch.num_rows))]
        return _by_pane(plan, columns, pane_indices)

    def window(self, index: int) -> dict[str, pa.Table] | None:
        """PAO tables of window `index`, one per table of the plan; None if it has no rows. The panes stay.

        Raises:
            TypeConflict: two of its panes have types without a common one.

        Cost: a merge of the window's panes, or of the new panes only where sliding by subtraction applies.
        """
        first = index * self._panes_per_slide
        stop = first + self._panes_per_window
        rows = self._slide(first, stop) if self._slides else self._merged(first, stop)
        if rows is None:
            return None
        return {name: to_table(_without_records(block, self._layouts[name])) for name, block in rows.items()}

    def drop_below(self, pane: int) -> None:
        """Forget all panes before this one."""
        for index in [index for index in self._trees if index < pane]:
            del self._trees[index], self._versions[index]

    def panes(self) -> list[int]:
        """Indices of the panes that have rows, ascending."""
        return sorted(self._trees)

    @property
    def nbytes(self) -> int:
        """Bytes held by all trees and by the start of the next sliding window."""
        trees = sum(tree.nbytes for pane in self._trees.values() for tree in pane.values())
        return trees + (sum(rows.nbytes for rows in self._suffix.rows.values()) if self._suffix else 0)

    def _plan(self, table: TableSpec) -> Plan:
        aggregates = dict(table.aggregates)
        if self._slides and ("count", None) not in aggregates.values():
            aggregates[_RECORDS] = ("count", None)
        return Plan(table.keys, aggregates)

    def _add(self, table_name: str, blocks: Sequence[tuple[int, Rows]]) -> None:
        for pane, rows in blocks:
            if pane not in self._trees:
                self._trees[pane] = {name: self._new_tree(plan) for name, plan in self._plans.items()}
            self._trees[pane][table_name].insert_rows(rows)
            self._insertions += 1
            self._versions[pane] = self._insertions

    def _new_tree(self, plan: Plan) -> CompressedBufferTree:
        return CompressedBufferTree(plan.keys, plan.aggregates, limits=self._limits)

    def _compress_idle(self) -> None:
        """Of a hopping window, compress what is not the newest pane: it waits for many windows to come."""
        if self._panes_per_window == 1:
            return
        for pane, trees in self._trees.items():
            if pane != self._newest:
                for tree in trees.values():
                    if tree.open_bytes > IDLE_BYTES_MIN:
                        tree.push_down()

    def _merged(self, first: int, stop: int) -> dict[str, Rows] | None:
        """All panes of [first, stop) merged, or None if they are empty."""
        present = [self._trees[pane] for pane in range(first, stop) if pane in self._trees]
        if not present:
            return None
        return {
            name: _combined(
                plan.layout, [block for trees in present for block in trees[name].snapshot().rows()]
            )
            for name, plan in self._plans.items()
        }

    def _slide(self, first: int, stop: int) -> dict[str, Rows] | None:
        """The window [first, stop), from the suffix of the last one if nothing in it has changed since."""
        suffix = self._suffix
        if (
            suffix is None
            or suffix.first != first
            or suffix.versions != self._versions_in(first, suffix.stop)
        ):
            rows = self._merged(first, stop)
        else:
            entering = self._merged(suffix.stop, stop)
            rows = suffix.rows if entering is None else _both(suffix.rows, entering)
        if rows is None or not any(block.count for block in rows.values()):
            self._suffix = None
            return None
        keep = first + self._panes_per_slide
        leaving = self._merged(first, keep)
        left = rows if leaving is None else {n: subtract_rows(rows[n], leaving[n]) for n in rows}
        self._suffix = _Suffix(keep, stop, self._versions_in(keep, stop), left)
        return rows

    def _versions_in(self, first: int, stop: int) -> dict[int, int]:
        return {pane: self._versions[pane] for pane in range(first, stop) if pane in self._versions}


def _lift(plan: Plan, columns: Mapping[str, pa.Array], rows: int) -> Rows:
    """Group one batch into PAO rows, one per key. Cost: a hashing of the keys, a pass per aggregate."""
    ids, groups, unique = grouping.group([columns[name] for name in plan.keys], rows)
    return Rows(plan.layout, groups, unique, _lift_states(plan, columns, ids, groups))


def _lift_states(
    plan: Plan, columns: Mapping[str, pa.Array], ids: np.ndarray, groups: int
) -> tuple[State, ...]:
    values = plan.values(columns)
    plan.value_types(values)
    return tuple(law.lift(taken, ids, groups) for law, taken in zip(plan.laws, values, strict=True))


def _by_pane(plan: Plan, columns: Mapping[str, pa.Array], panes: np.ndarray) -> list[tuple[int, Rows]]:
    """Group a batch by pane and key at once, and cut the groups by pane."""
    pane_column = pa.array(panes.astype(np.int64, copy=False))
    keys = [pane_column, *(columns[name] for name in plan.keys)]
    ids, groups, unique = grouping.group(keys, len(panes))
    rows = Rows(plan.layout, groups, unique[1:], _lift_states(plan, columns, ids, groups))
    pane_of = unique[0].to_numpy()
    order = np.argsort(pane_of, kind="stable")
    pane_of, rows = pane_of[order], rows.take(order)
    cuts = [0, *(np.flatnonzero(np.diff(pane_of)) + 1).tolist(), groups]
    return [(int(pane_of[start]), rows.slice(start, stop)) for start, stop in pairwise(cuts)]


def _combined(layout: Layout, blocks: list[Rows]) -> Rows:
    with_rows = [block for block in blocks if block.count]
    if len(with_rows) == 1:
        return with_rows[0]
    return combine(with_rows) if with_rows else empty_rows(layout)


def _both(left: Mapping[str, Rows], right: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: combine([left[name], right[name]]) for name in left}


def _without_records(rows: Rows, layout: Layout) -> Rows:
    """The rows without the count that only this module needs (it is the last one)."""
    if rows.layout == layout:
        return rows
    return Rows(layout, rows.count, rows.keys, rows.states[: len(layout.aggregates)])

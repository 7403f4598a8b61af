"""Panes: one tree per pane and table; windows are merges of panes.

A pane is gcd(slide, size) wide, so every window consists of whole panes and every record is inserted once. A
hopping window of few panes is merged from them; one of many panes is kept between windows (`sliding.py`). A
batch that does not fit one of its panes changes none. Rows that are added to a pane inside a sliding window
are kept separately until the window includes them.

Paper: ELF 2.2 (interval results PAO5, PAO10, PAO15; "invertible reduce"). Deviation: the paper keeps one tree
and subtracts snapshots of it. With panes, sealing a window is a pointer swap (D-3), and late records go into
their own interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import gcd
from typing import Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.cbt.budget import Budget
from elfmesh.cbt.limits import TreeLimits
from elfmesh.cbt.partial.contents import Content, MergedContent, RowsContent, all_rows, narrowed
from elfmesh.cbt.plan import Aggregates, TreePlan
from elfmesh.cbt.rows import Layout, Rows, Types, empty_rows
from elfmesh.cbt.tree.tree import CompressedBufferTree
from elfmesh.cbt.windows.panes_split import Columns, check_key_lengths, split_by_pane
from elfmesh.cbt.windows.sliding import BYTES_MAX, SlidingTable, WindowTooLarge
from elfmesh.errors import StorageError

SLIDE_PANES_MIN = 8
"""Panes of a window from which it is kept between windows; with fewer, that would cost more than it saves."""

IDLE_BYTES_MIN = 64 << 10
"""Open bytes from which an older pane is compressed; with fewer, that would save nothing."""

SPARE_MAX = 3
"""Maximum number of empty trees that are kept of a table, because a few panes are open at a time."""

_RECORDS = "\0records"
"""Internal count by which a sliding window knows its groups, if the plan has none."""


class TableSpec(Protocol):
    """Plan of one table; any object with these attributes."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> Sequence[str]: ...

    @property
    def aggregates(self) -> Aggregates: ...


class _Pane(Struct):
    """Trees of one pane by table; `fresh` rows were added after the pane entered the sliding window."""

    settled: dict[str, CompressedBufferTree] = field(default_factory=dict)
    fresh: dict[str, CompressedBufferTree] = field(default_factory=dict)


class Panes:
    """Open panes of one job at one agent.

    Args:
        size_us: width of a window in microseconds of event time; None: no window, all rows are in pane 0.
        slide_us: distance of windows; None: the size.
        seed: seed of hash tables; use a different one in each process if keys may be chosen to collide.
        slide_bytes_max: limit of the kept window of a table; a larger one is merged from its panes each time.
    """

    def __init__(
        self,
        tables: Sequence[TableSpec],
        size_us: int | None,
        slide_us: int | None = None,
        *,
        limits: TreeLimits | None = None,
        budget: Budget | None = None,
        seed: int = 0,
        slide_panes_min: int = SLIDE_PANES_MIN,
        slide_bytes_max: int = BYTES_MAX,
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
        self._limits, self._budget, self._seed = limits, budget, seed
        self._slide_bytes_max = slide_bytes_max
        self._plans = {table.name: self._plan(table) for table in tables}
        if len(self._plans) != len(tables) or not tables:
            raise ValueError("panes need tables of distinct names")
        self._layouts = {
            table.name: Layout(
                tuple(table.keys), tuple((name, kind) for name, (kind, _) in table.aggregates.items())
            )
            for table in tables
        }
        self._panes: dict[int, _Pane] = {}
        # By table, empty trees of dropped panes, whose memory the next panes reuse.
        self._spare: dict[str, list[CompressedBufferTree]] = {name: [] for name in self._plans}
        self._sliding = {name: self._new_sliding(plan) for name, plan in self._plans.items() if self._slides}
        # Panes inside the kept windows; rows that are added to them now are fresh.
        self._entered = range(0)
        self._newest: int | None = None
        self._touched: set[int] = set()

    @property
    def slides(self) -> bool:
        """Return whether windows are kept from one to the next, by inverses and stacks, instead of merged."""
        return self._slides

    def insert(self, table_name: str, pane_indices: np.ndarray, batch: pa.RecordBatch) -> None:
        """Add a batch to the panes floor(ts_us / pane_us) of its rows; all 0 without windows.

        Raises:
            DataError: A column has no usable type (TypeConflict: or an incompatible one; KeyTooLong: keys
                exceed the limit, with their rows). Nothing was added.
        """
        self.insert_all({table_name: (pane_indices, batch)})

    def insert_all(
        self,
        batches: Mapping[str, tuple[np.ndarray, pa.RecordBatch]],
        runs: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """Insert into several tables: all of it or, if it raises, nothing.

        `runs` has rows per pane, ascending, for tables whose rows are in the order of their panes.
        """
        pieces: list[tuple[int, str, Columns, int]] = []
        types: dict[str, Types] = {}
        for name, (indices, batch) in batches.items():
            plan = self._plans.get(name)
            if plan is None:
                raise ValueError(f"no table {name!r}, there are {sorted(self._plans)}")
            if len(indices) != batch.num_rows:
                raise ValueError(f"{len(indices)} pane indices for {batch.num_rows} rows")
            if batch.num_rows == 0:
                continue
            columns = plan.columns(batch)
            keys = [columns[key] for key in plan.keys]
            check_key_lengths(keys, batch.num_rows)
            types[name] = (*(key.type for key in keys), *plan.value_types(plan.values(columns)))
            for pane, part, rows in split_by_pane(columns, indices, runs.get(name) if runs else None):
                for tree in self._trees(pane, name):
                    tree.check_types(types[name])
                pieces.append((pane, name, part, rows))
        for pane, name, part, rows in pieces if len(pieces) > 1 else ():  # a tree inserts all rows or none
            if pane in self._panes and name in (trees := self._taking(pane)):
                trees[name].adopt(part, types[name], rows)
        for pane, name, part, rows in pieces:
            self._tree(pane, name).insert_columns(part, rows)
            self._touched.add(pane)
        newest = max((pane for pane, *_ in pieces), default=None)
        if newest is not None and (self._newest is None or newest > self._newest):
            self._newest = newest
            self._compress_idle()

    def window(self, index: int) -> dict[str, Content] | None:
        """Return the content of window `index`, by table of the plan; None if it has no rows. Panes stay.

        The content must be read before the next change of the panes and the next call of `window`. Raises
        TypeConflict if two of its panes have types without a common one.
        """
        first = index * self._panes_per_slide
        stop = first + self._panes_per_window
        inside = [pane for pane in range(first, stop) if pane in self._panes]
        if not inside:
            return None
        try:
            contents = {name: self._content(name, first, stop, inside) for name in self._plans}
            for pane in inside if self._sliding else ():
                self._settle(self._panes[pane])
        except Exception:
            # Some tables may have moved and others not, so all are read again from the panes, which are
            # complete.
            for table in self._sliding.values():
                table.forget()
            raise
        self._entered = range(first, stop) if self._sliding else range(0)
        return contents if any(content.rows_max for content in contents.values()) else None

    def pane(self, index: int) -> dict[str, Content]:
        """Return the content of one pane, by table; read it before the next change of the panes."""
        return {name: self._merged(name, self._trees(index, name)) for name in self._plans}

    def drop_below(self, pane: int) -> None:
        for name, table in list(self._sliding.items()):
            try:
                table.leave(pane, partial(self._settled_rows, name))
            except StorageError:
                table.forget()  # the next window is read from the remaining panes
            except WindowTooLarge:
                del self._sliding[name]  # it grew during the subtraction
        for index in [index for index in self._panes if index < pane]:
            for name, tree in self._panes.pop(index).settled.items():
                if len(self._spare[name]) < SPARE_MAX:
                    tree.empty()
                    self._spare[name].append(tree)
        self._touched = {index for index in self._touched if index >= pane}

    def panes(self) -> list[int]:
        return sorted(self._panes)

    @property
    def rows(self) -> int:
        """Return the number of PAO rows in all trees: at least the number of groups of all panes."""
        return sum(
            tree.rows
            for pane in self._panes.values()
            for tree in (*pane.settled.values(), *pane.fresh.values())
        )

    @property
    def nbytes(self) -> int:
        trees = sum(
            tree.nbytes
            for pane in self._panes.values()
            for tree in (*pane.settled.values(), *pane.fresh.values())
        )
        spare = sum(tree.nbytes for tree in chain.from_iterable(self._spare.values()))
        return trees + spare + sum(table.nbytes for table in self._sliding.values())

    def _plan(self, table: TableSpec) -> TreePlan:
        aggregates = dict(table.aggregates)
        if self._slides and ("count", None) not in aggregates.values():
            aggregates[_RECORDS] = ("count", None)
        return TreePlan(table.keys, aggregates)

    def _new_sliding(self, plan: TreePlan) -> SlidingTable:
        records = list(plan.aggregates.values()).index(("count", None))
        return SlidingTable(
            plan.layout, records, seed=self._seed, bytes_max=self._slide_bytes_max, budget=self._budget
        )

    def _trees(self, pane: int, name: str) -> list[CompressedBufferTree]:
        place = self._panes.get(pane)
        return (
            [] if place is None else [trees[name] for trees in (place.settled, place.fresh) if name in trees]
        )

    def _taking(self, pane: int) -> dict[str, CompressedBufferTree]:
        place = self._panes[pane]
        return place.fresh if pane in self._entered else place.settled

    def _tree(self, pane: int, name: str) -> CompressedBufferTree:
        self._panes.setdefault(pane, _Pane())
        trees = self._taking(pane)
        if name not in trees:
            plan, spare = self._plans[name], self._spare[name]
            trees[name] = (
                spare.pop()
                if spare
                else CompressedBufferTree(
                    plan.keys, plan.aggregates, limits=self._limits, budget=self._budget, seed=self._seed
                )
            )
        return trees[name]

    def _content(self, name: str, first: int, stop: int, inside: Sequence[int]) -> Content:
        layout = self._layouts[name]
        trees = [tree for pane in inside for tree in self._trees(pane, name)]
        types = self._plans[name].layout.null_types
        for tree in trees:
            types = tree.layout.unify(types, tree.types)
        table = self._sliding.get(name)
        if table is not None:
            try:
                table.slide(
                    first, stop, types, partial(self._settled_rows, name), partial(self._fresh_rows, name)
                )
                return table.content(layout)
            except WindowTooLarge:
                # From now on the window is merged from its panes, which are compressed and may be spilled.
                del self._sliding[name]
        return self._merged(name, trees)

    def _merged(self, name: str, trees: Sequence[CompressedBufferTree]) -> Content:
        layout = self._layouts[name]
        if not trees:
            return RowsContent(empty_rows(layout))
        contents = [narrowed(tree.snapshot(), layout) for tree in trees]
        return contents[0] if len(contents) == 1 else MergedContent(contents)

    def _settled_rows(self, name: str, pane: int) -> Iterator[Rows]:
        place = self._panes.get(pane)
        if place is not None and name in place.settled:
            yield from place.settled[name].snapshot().rows()

    def _fresh_rows(self, name: str, pane: int) -> Iterator[Rows]:
        place = self._panes.get(pane)
        if place is not None and name in place.fresh:
            yield from place.fresh[name].snapshot().rows()

    @staticmethod
    def _settle(pane: _Pane) -> None:
        for name, tree in pane.fresh.items():
            if name not in pane.settled:
                pane.settled[name] = tree
                continue
            # All of them or none, because after an error of a store some would be in both trees.
            pane.settled[name].insert_rows(all_rows(tree.snapshot()))
            tree.empty()
        pane.fresh.clear()

    def _compress_idle(self) -> None:
        if self._panes_per_window == 1:
            return
        idle = {pane for pane in self._touched if pane != self._newest}
        for pane in idle:
            for name in self._plans:
                for tree in self._trees(pane, name):
                    if tree.open_bytes > IDLE_BYTES_MIN:
                        tree.push_down()
        self._touched -= idle

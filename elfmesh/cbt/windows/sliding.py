"""Groups of a sliding window, kept between windows, so that the cost of a slide is that of the changed panes.

If an aggregate has an inverse, a pane that leaves is subtracted; otherwise two stacks are used (`stacks.py`).
`content` equals a merge of the panes inside. A group exists exactly while it has records. Types are those of
the panes inside: a wider type is dropped with the last pane that needed it.

Paper: ELF 2.2 ("invertible reduce"). Deviation: the paper subtracts snapshots of one growing tree. Here panes
are subtracted, so a window needs nothing before its first pane, and late records enter and leave with their
pane.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.budget import Budget, NoLock
from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.cbt.keys import KeyForm, encode, without_nulls
from elfmesh.cbt.laws import LAWS, Accumulator, State
from elfmesh.cbt.rows import Layout, Rows, Types, combine
from elfmesh.cbt.windows.registers import Register
from elfmesh.cbt.windows.sliding_content import SlidContent, take_keys
from elfmesh.cbt.windows.stacks import Stacks
from elfmesh.errors import ControlFlow

DEAD_MIN = 1 << 12
"""Minimum number of groups without records before their numbers are reclaimed, which also needs a
majority."""

BACK_SHARE = 8
"""One in this many panes goes to the back when the stacks are built. Late records come to the
newest panes; merging them there is cheap, while in the front the stacks must be built again."""

BYTES_MAX = 256 << 20
"""Maximum number of bytes of one window, uncompressed: about two million groups of a few aggregates."""

ReadPane = Callable[[int], Iterable[Rows]]
"""Reads the rows of a pane in blocks, each key once per block; none if it has no rows."""


class WindowTooLarge(ControlFlow):
    """A window exceeds its memory; its panes still exist and can be merged."""


class _NullKey(ControlFlow):
    """A key is null for the first time."""


class SlidingTable:
    """Groups of one table over the panes [first, stop).

    `version` changes whenever the groups do. `records` is the position of the count(*) that tells which
    groups exist. After `released`, when its memory was reclaimed, it can no longer slide.
    """

    def __init__(
        self,
        layout: Layout,
        records: int,
        *,
        seed: int = 0,
        bytes_max: int = BYTES_MAX,
        budget: Budget | None = None,
    ) -> None:
        self._layout = layout
        self._records_place = records
        self._seed = seed
        self._bytes_max = bytes_max
        self.first = self.stop = 0
        self.version = 0
        self.released = False
        self._nulls = False  # whether a null key has required a form with markers
        self._content: weakref.ref[SlidContent] | None = None
        self._lock = NoLock() if budget is None else budget.new_lock()
        self._share = None if budget is None else budget.join(self)
        self._clear()

    def forget(self) -> None:
        with self._lock:
            self._clear()
            self._report()

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        """Free all memory, permanently, unless a content must still be read; see `budget.BudgetUser`."""
        if not root or not self._lock.acquire(blocking=False):
            return
        try:
            if self._content is None or self._content() is None:
                self._clear()
                self.released = True
                self._report()
        finally:
            self._lock.release()

    def _report(self, *, used: bool = False) -> None:
        if self._share is not None:
            self._share.report(self.nbytes, used=used)

    def _clear(self) -> None:
        self.version += 1
        self._types: Types | None = None
        self._table = kernel.active.table(self._seed)
        self._records = np.zeros(0, np.int64)
        self.rows = 0
        self._sums: dict[int, Accumulator] = {}
        self._stacks: Stacks | None = None
        self._without_inverse: list[int] = []

    def slide(self, first: int, stop: int, types: Types, settled: ReadPane, fresh: ReadPane) -> None:
        """Move to the panes [first, stop), with these unified types.

        `settled` reads a pane without its fresh rows, `fresh` those that were added since it entered. Raises
        WindowTooLarge if it exceeds `bytes_max` or was released; `forget` must follow any error. Cost: the
        rows of the panes that enter and leave, and fresh rows; all panes if types changed, the window jumped
        or the front of a stack is used up.
        """
        with self._lock:
            if self.released:
                raise WindowTooLarge("its memory was reclaimed")
            try:
                self._slide(first, stop, types, settled, fresh)
            except _NullKey:
                # At most once per table: all keys are encoded again with markers for null, which most tables
                # never need.
                self._nulls = True
                self._clear()
                self._slide(first, stop, types, settled, fresh)
            self._report(used=True)

    def _slide(self, first: int, stop: int, types: Types, settled: ReadPane, fresh: ReadPane) -> None:
        if types != self._types or not self.first <= first <= self.stop <= stop:
            self._begin(first, types)
        self.version += 1
        self._leave(first, settled)
        entered, self.first, self.stop = self.stop, first, stop
        for pane in range(first, entered):
            self._enter(pane, fresh(pane))
        for pane in range(entered, stop):
            self._enter(pane, settled(pane))
            self._enter(pane, fresh(pane))
        if self._stacks is not None and self._stacks.stale:
            self._build(self._stacks, settled, fresh)
        self._reclaim()

    def leave(self, first: int, settled: ReadPane) -> None:
        with self._lock:
            self._leave(first, settled)
            self._report()

    def _leave(self, first: int, settled: ReadPane) -> None:
        if self._types is None:
            return
        while self.first < min(first, self.stop):
            self.version += 1
            for ids, rows in self._placed(settled(self.first)):
                self._count(ids, -self._counts(rows))
                for place, sums in self._sums.items():
                    law = LAWS[rows.states[place].kind]
                    sums.merge(law.negate(rows.states[place]), ids, self._table.rows)
            if self._stacks is not None:
                self._stacks.leave(self.first)
            self.first += 1

    def content(self, layout: Layout) -> SlidContent:
        """Return the present content, with the aggregates of `layout`, which come first here too.

        Raises WindowTooLarge if another thread has reclaimed its memory since it slid here.
        """
        with self._lock:
            if self._types is None:
                raise WindowTooLarge("its memory was reclaimed")
            types = self._types[: len(layout.keys) + len(layout.aggregates)]
            read = partial(self._read, self.version, len(layout.aggregates))
            content = SlidContent(layout, types, self._form, self.rows, read)
            self._content = weakref.ref(content)
            return content

    def _read(self, version: int, aggregates: int) -> tuple[Keys, Callable[[np.ndarray], tuple[State, ...]]]:
        if version != self.version:
            raise ValueError("the window has moved on: read its content before the next change")
        groups = self._table.rows
        live = np.flatnonzero(self._records[:groups])
        keys = self._table.keys()
        if len(live) < groups:
            keys = take_keys(keys, live)
        sums = {place: sums.freeze(groups) for place, sums in self._sums.items() if place < aggregates}
        stacked = dict(zip(self._without_inverse, self._stacks.both if self._stacks else (), strict=True))

        def states(places: np.ndarray) -> tuple[State, ...]:
            ids = live[places]
            return tuple(
                stacked[place].take(ids)
                if place in stacked
                else sums[place].take(ids)
                if place in sums
                else State("count", pa.int64(), {"rows": self._records[ids]})
                for place in range(aggregates)
            )

        return keys, states

    @property
    def nbytes(self) -> int:
        sums = sum(accumulator.nbytes for accumulator in self._sums.values())
        stacks = self._stacks.nbytes if self._stacks is not None else 0
        return self._table.nbytes + self._records.nbytes + sums + stacks

    def _begin(self, first: int, types: Types) -> None:
        self._clear()
        self.first = self.stop = first
        self._types = types
        width = len(self._layout.keys)
        form = without_nulls(types[:width])
        self._form = KeyForm(form.types, (True,) * width) if self._nulls else form
        kinds = [kind for _, kind in self._layout.aggregates]
        for place, kind in enumerate(kinds):
            if place == self._records_place:
                continue
            if LAWS[kind].invertible:
                self._sums[place] = LAWS[kind].accumulator(types[width + place])
            else:
                self._without_inverse.append(place)
        if self._without_inverse:

            def registers() -> list[Register]:
                return [Register(kinds[place], types[width + place]) for place in self._without_inverse]

            self._stacks = Stacks(registers(), registers(), registers())

    def _enter(self, pane: int, blocks: Iterable[Rows]) -> None:
        for ids, rows in self._placed(blocks):
            self._count(ids, self._counts(rows))
            for place, sums in self._sums.items():
                sums.merge(rows.states[place], ids, self._table.rows)
            if self._stacks is not None:
                self._stacks.enter(pane, ids, self._stacked(rows))

    def _build(self, stacks: Stacks, settled: ReadPane, fresh: ReadPane) -> None:
        split = self.stop - max(1, (self.stop - self.first) // BACK_SHARE)
        stacks.clear(split)
        for pane in reversed(range(self.first, self.stop)):
            for read in (settled, fresh):
                for ids, rows in self._placed(read(pane)):
                    stacks.push(pane, ids, self._stacked(rows))
        stacks.refresh(np.flatnonzero(self._records[: self._table.rows]))

    def _placed(self, blocks: Iterable[Rows]) -> Iterator[tuple[np.ndarray, Rows]]:
        """Yield blocks in the types of the window, with the numbers of their groups, each once per block."""
        assert self._types is not None
        width = len(self._layout.keys)
        for given in blocks:
            same = given.types[:width] == self._types[:width]
            # In a wider type, two keys may become equal.
            rows = given.promote(self._types) if same else combine([given], self._types)
            if any(
                key.null_count and not null for key, null in zip(rows.keys, self._form.nullable, strict=True)
            ):
                raise _NullKey
            ids = self._table.upsert(encode(rows.keys, self._form, rows.count))
            self._reserve(self._table.rows)
            if self.nbytes > self._bytes_max:
                raise WindowTooLarge(f"{self.nbytes} bytes are over {self._bytes_max}")
            yield ids, rows

    def _reserve(self, groups: int) -> None:
        if groups > len(self._records):
            grown = np.zeros(max(groups, 2 * len(self._records)), np.int64)
            grown[: len(self._records)] = self._records
            self._records = grown
        if self._stacks is not None:
            for register in self._stacks.registers:
                register.reserve(groups)

    def _count(self, ids: np.ndarray, change: np.ndarray) -> None:
        before = self._records[ids]
        after = before + change
        if len(after) and after.min() < 0:
            raise ValueError(f"a pane from {self.first} on leaves a window that it did not enter")
        self._records[ids] = after
        self.rows += int(np.count_nonzero(after)) - int(np.count_nonzero(before))

    def _counts(self, rows: Rows) -> np.ndarray:
        counts = rows.states[self._records_place].parts["rows"]
        assert isinstance(counts, np.ndarray)
        return counts

    def _stacked(self, rows: Rows) -> list[State]:
        return [rows.states[place] for place in self._without_inverse]

    def _reclaim(self) -> None:
        """Renumber the groups if most have no records. Cost: their number, so constant per row that left."""
        if self._table.rows - self.rows <= max(self.rows, DEAD_MIN):
            return
        live = np.flatnonzero(self._records[: self._table.rows])
        number_of = np.full(self._table.rows, -1, np.int64)
        number_of[live] = np.arange(len(live))
        keys, groups = take_keys(self._table.keys(), live), self._table.rows
        self._table = kernel.active.table(self._seed)
        self._table.upsert(keys)
        self._records = self._records[live]
        for place, sums in self._sums.items():
            state = sums.freeze(groups).take(live)
            self._sums[place] = LAWS[state.kind].accumulator(state.type)
            self._sums[place].merge(state, np.arange(len(live)), len(live))
        if self._stacks is not None:
            self._stacks.renumber(live, number_of)

"""The compressed buffer tree: groupby-aggregates of all that was inserted, in little memory, merged lazily.

A batch goes into the root's buffer (hot.py), where the keys that come again and again are updated in place.
When the root is full of others, it is pushed down in sorted runs to the compressed buffers below (node.py),
which merge them when it pays. `snapshot` reads all of it, and changes nothing.

Owns: the root, the form and the types seen so far, when the root is pushed down.
Refuses to know: time, windows, files, other agents.

Invariants:
    - `flush` equals one GROUP BY over all rows inserted since `empty`, whatever their order and batches.
    - A batch that does not fit (TypeConflict, DataError, KeyTooLong) changes nothing.
    - Once a batch is in, no error of a store takes it out or raises: the budget keeps it (`problem`).
    - One thread at a time inserts; heavy calls run in C, which releases the GIL.

Paper: ELF 2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.budget import ROOT_SHARE, MemoryBudget, NoLock, Share
from elfmesh.cbt.checkpoint import Checkpoint, save
from elfmesh.cbt.hot import HotRoot, conform, slices
from elfmesh.cbt.keys import KeyForm, KeyTooLong, encode, form_of, unify_forms
from elfmesh.cbt.laws import State
from elfmesh.cbt.limits import TreeLimits
from elfmesh.cbt.node import BufferNode, Shared
from elfmesh.cbt.plan import Aggregates, Plan
from elfmesh.cbt.rows import Layout, Rows, Types, combine, empty_rows, finish_rows, from_table, to_table
from elfmesh.cbt.snapshot import Snapshot, freeze
from elfmesh.cbt.sorted_rows import SortedRows, reform, to_rows
from elfmesh.errors import StorageError

RELEASE_BYTES_MIN = 1 << 13
"""A root is not pushed down for less: its compressed form and the objects around it would take as much."""

_TREE_BYTES = 1200
"""Python objects of a tree without rows (measured)."""


class CompressedBufferTree:
    """Groupby-aggregates of all rows inserted since `empty`.

    Args:
        keys: key columns; any scalar Arrow type, null is a key. None: one global group.
        aggregates: name -> (kind, input column, or several); see `elfmesh.cbt.laws`.
        limits: sizes.
        budget: the memory that this tree shares with others; None: as much as it takes.
        seed: of the root's table.

    Paper: ELF 2.2, "insert" to fill, "flush" to fetch the entire groupby-aggregate results, "empty" to empty
        the buffers.
    """

    def __init__(
        self,
        keys: Sequence[str],
        aggregates: Aggregates,
        *,
        limits: TreeLimits | None = None,
        budget: MemoryBudget | None = None,
        seed: int = 0,
    ) -> None:
        self._plan = Plan(keys, aggregates)
        self._limits = limits or TreeLimits()
        self._seed = seed
        self._budget = budget
        self._lock = NoLock() if budget is None else budget.new_lock()
        self._share: Share | None = None if budget is None else budget.join(self)
        self._spilled_up_to = 0
        self._form: KeyForm | None = None
        self._state_types: Types = ()
        self._hot: HotRoot | None = None
        self._shared = Shared(self._limits)
        self._top: BufferNode | None = None
        self._begin(None, self.layout.null_types[len(self.layout.keys) :])
        self._report(used=False)

    @property
    def layout(self) -> Layout:
        """Names of keys, names and kinds of aggregates."""
        return self._plan.layout

    @property
    def types(self) -> Types:
        """Types of keys and of aggregated values, null as long as they are not known."""
        keys = self.layout.null_types[: len(self.layout.keys)] if self._form is None else self._form.types
        return (*keys, *self._state_types)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory: root, compressed buffers, and the objects around them."""
        return _TREE_BYTES + self.open_bytes + self._shared.nbytes

    @property
    def open_bytes(self) -> int:
        """Of these, what the root takes."""
        return 0 if self._hot is None else self._hot.nbytes

    @property
    def rows(self) -> int:
        """PAO rows held; a key counts once per buffer that has it, so this is at least the number of keys."""
        return self._shared.rows + (0 if self._hot is None else self._hot.rows)

    @property
    def depth(self) -> int:
        """Levels, the root being the first."""
        return 1 + (self._top.depth if self._top else 0)

    def empty(self) -> None:
        """Erase everything, types too: start a new batch."""
        with self._lock:
            self._begin(None, self.layout.null_types[len(self.layout.keys) :])
            self._report(used=False)

    # -- inserting -----------------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the key and value columns; others are ignored.

        Raises:
            ValueError: a column is missing.
            DataError: a column has no usable type (TypeConflict: or another than before; KeyTooLong: or keys
                that are too long). Nothing was added.
            StorageError: a change of types had to read a store, which failed. Nothing was added.

        Cost: one look-up per row and one addition per row and aggregate; now and then a push down.
        """
        if batch.num_rows:
            self.insert_columns(self._plan.columns(batch), batch.num_rows)

    def insert_columns(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        """The same for canonical columns by name, all of this many rows."""
        if rows == 0:
            return
        keys = [columns[name] for name in self._plan.keys]
        values = self._plan.values(columns)
        own = self._plan.value_types(values)
        with self._lock:
            form, types = self._wider(self._form_with(keys), own)
            encoded = encode(keys, form, rows)
            self._adopt(form, types, keys, rows)
            inputs = conform(values, own, types)
            for start, piece in slices(encoded):
                self._root().add(piece, inputs, start)
                self._push_down_if_full()
            self._report(used=True)
        self._relieve()

    def insert_partial(self, table: pa.Table) -> None:
        """Merge PAO rows, as `partial` gives them, of this or another tree of the same plan.

        Raises:
            ProtocolError: not a table of partial aggregates.
            Others: as `insert`.
        """
        self.insert_rows(from_table(table))

    def insert_rows(self, rows: Rows) -> None:
        """Merge PAO rows of this plan; keys may repeat. Raises as `insert`."""
        self._check_layout(rows.layout)
        if rows.count == 0:
            return
        with self._lock:
            form, types = self._wider(form_of(rows.keys), rows.types[len(rows.keys) :])
            encoded = encode(rows.keys, form, rows.count)
            self._adopt(form, types, rows.keys, rows.count)
            self._merge(encoded, rows.promote((*form.types, *types)).states)
            self._report(used=True)
        self._relieve()

    def insert_sorted(self, rows: SortedRows) -> None:
        """Merge PAO rows of this plan. Raises as `insert`.

        Cost: rows of a content larger than a root are pushed down as they are; fewer go through the root.
        """
        self._check_layout(rows.layout)
        if rows.count == 0:
            return
        form, _ = self._wider(rows.form, rows.types[len(rows.form.types) :])
        if not form.has_bytes_of(rows.form):
            self.insert_rows(to_rows(rows))
            return
        with self._lock:
            form, types = self._wider(rows.form, rows.types[len(rows.form.types) :])
            self._adopt(form, types, (), rows.count)
            rows = reform(rows, form, self.types)
            if rows.count << rows.bits >= self._limits.root_rows:
                self._hang(rows)
            else:
                self._merge(kernel.active.decode_run(rows.run), rows.states)
            self._report(used=True)
        self._relieve()

    def check_types(self, types: Types) -> None:
        """Raise TypeConflict if inserting rows of these types would."""
        self.layout.unify(self.types, types)

    def push_down(self) -> None:
        """Move the root's rows into the compressed buffers below, full or not, and give its memory back."""
        with self._lock:
            self._push_down()
            self._hot = None
            self._report(used=False)

    # -- reading -------------------------------------------------------------------------------------------

    def flush(self) -> pa.Table:
        """Key columns, then one column per aggregate; the state is kept. Row order is not promised.

        Raises:
            StorageError: a spilled buffer cannot be read.

        Cost: unpacks every leaf, and merges what is pending there.
        """
        tables = [finish_rows(rows) for rows in self.snapshot().rows()]
        return _stack(tables or [finish_rows(empty_rows(self.layout, self.types))])

    def partial(self) -> pa.Table:
        """All PAO rows, each key once: key and state columns, as schema metadata says. The state is kept."""
        blocks = list(self.snapshot().rows())
        # State columns vary with the values (limbs): blocks are laid together before they become a table.
        rows = combine(blocks, self.types) if blocks else empty_rows(self.layout, self.types)
        return to_table(rows)

    def snapshot(self) -> Snapshot:
        """What the tree holds now, to be read at any time and in any thread; the state is kept.

        Cost: a copy of the root's rows, a small object per member.
        """
        with self._lock:
            snapshot = self._snapshot()
            self._report(used=False)  # reading may have set up tables in the root
            return snapshot

    def save(self) -> Iterator[bytes]:
        """A checkpoint of what the tree holds now, in frames of a few MB at most; see `load`."""
        return save(self.snapshot())

    def load(self, chunks: Iterable[bytes]) -> None:
        """Hold what a checkpoint holds, instead of what was here.

        Raises:
            ProtocolError: it is damaged, or of another plan. The tree is as it was.
        """
        checkpoint = Checkpoint(chunks, self.layout)
        fresh = CompressedBufferTree(
            self._plan.keys, self._plan.aggregates, limits=self._limits, seed=self._seed
        )
        small = checkpoint.rows_max <= self._limits.root_rows
        fresh._adopt(checkpoint.form, checkpoint.types[len(checkpoint.form.types) :], (), 0)
        for block in checkpoint.blocks():
            if small:
                fresh.insert_sorted(block)
            else:
                fresh._hang(reform(block, checkpoint.form, checkpoint.types))
        with self._lock:
            self._take(fresh)
            self._report(used=True)
        self._relieve()

    # -- giving up memory ----------------------------------------------------------------------------------

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        """See `elfmesh.cbt.budget.Holder`."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            goal = self.nbytes - bytes_wanted
            if root and self.open_bytes >= RELEASE_BYTES_MIN:
                self._push_down()
                self._hot = None
            if (
                spill
                and self._budget is not None
                and self._budget.store is not None
                and self._top is not None
            ):
                self._spill(goal)
        finally:
            self._report(used=False)
            self._lock.release()

    def _spill(self, goal: int) -> None:
        """Spill members in turn, so that it is not always the first ones that are read back and written."""
        assert self._budget is not None
        assert self._budget.store is not None
        assert self._top is not None
        members = list(self._top.members())
        for _ in range(len(members)):
            if self.nbytes <= goal:
                return
            self._spilled_up_to = (self._spilled_up_to + 1) % len(members)
            members[self._spilled_up_to].spill(self._budget.store)

    def _report(self, *, used: bool) -> None:
        if self._share is not None:
            self._share.report(self.nbytes, used=used)

    def _relieve(self) -> None:
        if self._budget is not None:
            self._budget.relieve()

    # -- the root and what is below ------------------------------------------------------------------------

    def _begin(self, form: KeyForm | None, state_types: Types) -> None:
        """Hold nothing."""
        self._form, self._state_types = form, state_types
        self._hot, self._top, self._shared = None, None, Shared(self._limits)

    def _take(self, other: CompressedBufferTree) -> None:
        """Hold what another tree holds."""
        self._form, self._state_types = other._form, other._state_types
        self._hot, self._top, self._shared = other._hot, other._top, other._shared

    def _root(self) -> HotRoot:
        if self._hot is None:
            assert self._form is not None
            limits = self._limits
            bytes_max = limits.root_bytes_max
            if self._budget is not None:
                bytes_max = min(bytes_max, max(int(ROOT_SHARE * self._budget.limit_bytes), 1))
            self._hot = HotRoot(
                self.layout,
                self._form,
                self._state_types,
                rows=limits.root_rows,
                rows_max=limits.root_rows_max,
                bytes_max=bytes_max,
                seed=self._seed,
            )
        return self._hot

    def _merge(self, keys: kernel.Keys, states: Sequence[State]) -> None:
        for start, piece in slices(keys):
            self._root().merge(piece, states, start)
            self._push_down_if_full()

    def _push_down_if_full(self) -> None:
        hot = self._hot
        if hot is None or not hot.is_full:
            return
        outgrown = hot.nbytes > hot.bytes_max
        self._push_down()
        if outgrown:
            self._hot = None  # its memory is what is too much

    def _push_down(self) -> None:
        """Move the root's rows into the buffers below."""
        hot = self._hot
        if hot is None or not hot.rows:
            return
        shared = self._shared
        if self._top is None:
            self._top = BufferNode(shared)
        top = self._top
        try:
            if not top.children and shared.rows + hot.rows > 2 * self._limits.leaf_rows_max:
                top.split()
        except StorageError as error:
            self._suffer(error)  # an unsplit leaf takes the rows as well
        parts = hot.sorted(top.child_bits if top.children else 0)
        hot.clear()
        try:
            top.push_parts(parts) if top.children else top.insert(parts[0])
        except StorageError as error:
            self._suffer(error)
        shared.rest()

    def _hang(self, rows: SortedRows) -> None:
        """Merge sorted rows below the root."""
        if self._top is None:
            self._top = BufferNode(self._shared)
        try:
            self._top.insert(rows)
        except StorageError as error:
            self._suffer(error)
        self._shared.rest()

    def _suffer(self, error: StorageError) -> None:
        """The rows are in the tree, but could not be merged with those in the store. That is tried again."""
        if self._budget is None:
            raise error
        self._budget.problem = error

    # -- forms and types -----------------------------------------------------------------------------------

    def _form_with(self, keys: Sequence[pa.Array]) -> KeyForm:
        """The narrowest form for these columns; the tree's own, unlooked at, if that holds them."""
        form = self._form
        if form is not None and all(
            column.type == data_type and (nullable or column.null_count == 0)
            for column, data_type, nullable in zip(keys, form.types, form.nullable, strict=True)
        ):
            return form
        return form_of(keys)

    def _wider(self, form: KeyForm, state_types: Types) -> tuple[KeyForm, Types]:
        """The form and the types of states that hold what is here and what comes.

        Raises:
            TypeConflict: there are none.
        """
        if form is self._form and state_types == self._state_types:
            return form, state_types
        width = len(form.types)
        types = self.layout.unify(self.types, (*form.types, *state_types))
        if self._form is not None:
            form = unify_forms(self._form, form, self.layout.keys)
        return form, types[width:]

    def _adopt(self, form: KeyForm, state_types: Types, keys: Sequence[pa.Array], rows: int) -> None:
        """Go on with a form and types from `_wider`, for the sake of some rows.

        Raises:
            KeyTooLong: which of these rows make a key that is here already too long. Nothing has changed.
            StorageError: what is here could not be read. Nothing has changed.
        """
        old = self._form
        if form is old and state_types == self._state_types:
            return
        if old is None or form.has_bytes_of(old):
            self._form, self._state_types = form, state_types
            if self._hot is not None:
                self._hot.promote(form, state_types)
            return
        try:
            self._rebuild(form, state_types)
        except KeyTooLong:
            raise KeyTooLong(_with_new_nulls(old, keys, rows)) from None

    def _rebuild(self, form: KeyForm, state_types: Types) -> None:
        """Encode all keys anew: a first null, or an integer key that turns float. Exact, rare and slow."""
        before = (self._form, self._state_types, self._hot, self._top, self._shared)
        snapshot = self._snapshot()
        self._begin(form, state_types)
        try:
            for rows in snapshot.rows():
                promoted = rows.promote(self.types)
                self._merge(encode(promoted.keys, form, rows.count), promoted.states)
        except BaseException:
            self._form, self._state_types, self._hot, self._top, self._shared = before
            raise

    def _snapshot(self) -> Snapshot:
        hot = self._hot.freeze() if self._hot is not None and self._hot.rows else None
        top = None if self._top is None else freeze(self._top)
        form = self._form or form_of([pa.nulls(0)] * len(self.layout.keys))
        return Snapshot(self.layout, form, self.types, hot, top, self.rows)

    def _check_layout(self, layout: Layout) -> None:
        if layout != self.layout:
            raise ValueError(f"partial aggregates of {layout} do not belong in {self.layout}")


def _with_new_nulls(form: KeyForm, keys: Sequence[pa.Array], rows: int) -> np.ndarray:
    """Which rows have a null where the form has none; all, if it is not for nulls that the form changes."""
    new = np.zeros(rows, np.bool_)
    for column, nullable in zip(keys, form.nullable, strict=False):
        if not nullable and column.null_count:
            new |= np.asarray(column.is_null())
    return np.flatnonzero(new) if new.any() else np.arange(rows)


def _stack(tables: list[pa.Table]) -> pa.Table:
    """One table of tables with disjoint keys; a sum that was widened in one is widened in all."""
    if len(tables) == 1:
        return tables[0]
    schema = tables[0].schema
    for table in tables[1:]:
        for place, field in enumerate(table.schema):
            if _width(field.type) > _width(schema.field(place).type):
                schema = schema.set(place, field)
    return pa.concat_tables([table.cast(schema) for table in tables])


def _width(data_type: pa.DataType) -> int:
    """Order of the types that one exact sum may finish in."""
    if pa.types.is_decimal(data_type):
        return int(data_type.bit_width)
    return 0 if pa.types.is_null(data_type) else 1

"""Compressed buffer tree: groupby-aggregates of all inserted rows, in little memory, merged lazily.

A batch goes into the root's buffer (hot.py). A full root is pushed down in sorted runs to the compressed
buffers below (node.py). `flush` equals one GROUP BY over all rows inserted since `empty`. A batch that does
not fit changes nothing; after it was added, no error of a store removes it or raises (`problem`). One thread
at a time inserts; expensive calls run in C, which releases the GIL.

Paper: ELF 2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from elfmesh.cbt import kernel
from elfmesh.cbt.budget import ROOT_SHARE, Budget, NoLock, TreeShare
from elfmesh.cbt.keys import KeyForm, KeyTooLong, encode, form_of, unify_forms
from elfmesh.cbt.limits import TreeLimits
from elfmesh.cbt.partial.contents import all_rows, finished
from elfmesh.cbt.plan import Aggregates, TreePlan
from elfmesh.cbt.rows import Layout, Rows, Types, from_table, to_table
from elfmesh.cbt.sorted_rows import SortedRows, reform
from elfmesh.cbt.tree.body import Body
from elfmesh.cbt.tree.checkpoint import Checkpoint, save
from elfmesh.cbt.tree.hot import conform
from elfmesh.cbt.tree.snapshot import Snapshot
from elfmesh.errors import StorageError

RELEASE_BYTES_MIN = 1 << 13
"""Minimum size of a root that is pushed down to free memory, because a compressed one has overhead too."""

_TREE_BYTES = 1200
"""Python objects of a tree without rows (measured)."""


class CompressedBufferTree:
    """Groupby-aggregates of all rows inserted since `empty`.

    Args:
        keys: key columns; any scalar Arrow type, null is a key. None: one global group.
        aggregates: name -> (kind, input column, or several); see `elfmesh.cbt.laws`.
        budget: the memory budget that this tree shares with others; None: no limit.
        seed: seed of the root's table.

    Paper: ELF 2.2, "insert" to fill, "flush" to fetch the entire groupby-aggregate results, "empty" to empty
    the buffers.
    """

    def __init__(
        self,
        keys: Sequence[str],
        aggregates: Aggregates,
        *,
        limits: TreeLimits | None = None,
        budget: Budget | None = None,
        seed: int = 0,
    ) -> None:
        self._plan = TreePlan(keys, aggregates)
        self._limits = limits or TreeLimits()
        self._seed = seed
        self._budget = budget
        self._lock = NoLock() if budget is None else budget.new_lock()
        self._share: TreeShare | None = None if budget is None else budget.join(self)
        # None until something is inserted, because neither form nor types are known before.
        self._body: Body | None = None
        self._kept: Body | None = None  # empty body with a reusable root for the same form and types
        self._report(used=False)

    @property
    def layout(self) -> Layout:
        return self._plan.layout

    @property
    def types(self) -> Types:
        return self.layout.null_types if self._body is None else self._body.types

    @property
    def nbytes(self) -> int:
        return _TREE_BYTES + sum(each.nbytes for each in (self._body, self._kept) if each is not None)

    @property
    def open_bytes(self) -> int:
        return 0 if self._body is None else self._body.open_bytes

    @property
    def rows(self) -> int:
        """Return the number of PAO rows.

        A key counts once per buffer, so this is at least the number of keys.
        """
        return 0 if self._body is None else self._body.rows

    @property
    def depth(self) -> int:
        return 1 if self._body is None else self._body.depth

    def empty(self) -> None:
        """Remove everything, including types, for a new batch. The memory of a small root is kept."""
        with self._lock:
            body, self._body = self._body, None
            if body is not None and body.clear():
                self._kept = body
            self._report(used=False)

    # -- inserting -----------------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the key and value columns; other columns are ignored.

        Raises, with nothing added:
            DataError: A column has no usable type (TypeConflict: or an incompatible one; KeyTooLong: keys are
                too long).
            StorageError: A change of types had to read a store, which failed.

        Cost: one look-up per row and one addition per row and aggregate; occasionally a push down.
        """
        if batch.num_rows:
            self.insert_columns(self._plan.columns(batch), batch.num_rows)

    def insert_columns(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        if rows == 0:
            return
        keys = [columns[name] for name in self._plan.keys]
        values = self._plan.values(columns)
        own = self._plan.value_types(values)
        with self._lock:
            form, types = self._wider(self._form_with(keys), own)
            encoded = encode(keys, form, rows)
            self._adopted(form, types, keys, rows).add(encoded, conform(values, own, types, self._plan.laws))
            self._report(used=True)
        self._relieve()

    def insert_partial(self, table: pa.Table) -> None:
        """Merge PAO rows, in the format of `partial`, of a tree with the same plan."""
        self.insert_rows(from_table(table))

    def insert_rows(self, rows: Rows) -> None:
        """Merge PAO rows of this plan; keys may repeat. Raises as `insert`."""
        self._check_layout(rows.layout)
        if rows.count == 0:
            return
        with self._lock:
            form, types = self._wider(form_of(rows.keys), rows.types[len(rows.keys) :])
            encoded = encode(rows.keys, form, rows.count)
            promoted = rows.promote((*form.types, *types))
            self._adopted(form, types, rows.keys, rows.count).merge(encoded, promoted.states)
            self._report(used=True)
        self._relieve()

    def check_types(self, types: Types) -> None:
        self.layout.unify(self.types, types)

    def adopt(self, columns: Mapping[str, pa.Array], types: Types, rows: int) -> None:
        """Adopt the form for `rows` rows to come, with these canonical columns and types.

        Inserting them later reads no store. Raises as `insert`; the tree is then unchanged.
        """
        if self._body is None:
            return
        keys = [columns[name] for name in self._plan.keys]
        with self._lock:
            self._adopted(*self._wider(self._form_with(keys), types[len(keys) :]), keys, rows)
            self._report(used=True)

    def push_down(self) -> None:
        with self._lock:
            if self._body is not None:
                self._body.push_down()
            self._report(used=False)

    # -- reading -------------------------------------------------------------------------------------------

    def flush(self) -> pa.Table:
        """Return key columns, then one column per aggregate, in no order; the state is kept."""
        return finished(self.snapshot())

    def partial(self) -> pa.Table:
        """Return all PAO rows, each key once: key and state columns, described by schema metadata.

        The state is kept.
        """
        return to_table(all_rows(self.snapshot()))

    def snapshot(self) -> Snapshot:
        """Return the present content, which can be read at any time, in any thread.

        Cost: a copy of the root.
        """
        with self._lock:
            if self._body is None:
                form = form_of([pa.nulls(0)] * len(self.layout.keys))
                return Snapshot(self.layout, form, self.types, None, None, 0)
            snapshot = self._body.snapshot()
            self._report(used=False)  # reading may have allocated tables in the root
            return snapshot

    def save(self) -> Iterator[bytes]:
        """Yield a checkpoint of the present content, in frames of a few MB at most; see `load`."""
        return save(self.snapshot())

    def load(self, chunks: Iterable[bytes]) -> None:
        """Replace the content by a checkpoint; a ProtocolError changes nothing."""
        checkpoint = Checkpoint(chunks, self.layout)
        form, types = checkpoint.form, checkpoint.types
        body = self._new_body(form, types[len(form.types) :])
        small = checkpoint.rows_max <= self._limits.root_rows
        for block in checkpoint.blocks():
            if small:
                body.merge(kernel.active.decode_run(block.run), reform(block, form, types).states)
            else:
                body.hang(block)
                self._spill_early(body)
        with self._lock:
            self._body = body if body.rows else None
            self._report(used=True)
        self._relieve()

    def release(self, bytes_wanted: int, *, root: bool, spill: bool) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._kept, body = None, self._body
            if body is None:
                return
            goal = body.nbytes - bytes_wanted
            if root and body.open_bytes >= RELEASE_BYTES_MIN:
                body.push_down()
            if spill and self._budget is not None and self._budget.store is not None:
                body.spill(self._budget.store, goal)
        finally:
            self._report(used=False)
            self._lock.release()

    def _report(self, *, used: bool) -> None:
        if self._share is not None:
            self._share.report(self.nbytes, used=used)

    def _relieve(self) -> None:
        if self._budget is not None:
            self._budget.relieve()

    def _spill_early(self, body: Body) -> None:
        budget = self._budget
        if budget is not None and budget.store is not None and body.nbytes > budget.limit_bytes // 2:
            try:
                body.spill(budget.store, budget.limit_bytes // 4)
            except StorageError as error:
                _suffer(budget, error)

    def _new_body(self, form: KeyForm, state_types: Types) -> Body:
        kept, self._kept = self._kept, None
        if kept is not None and (kept.form, kept.state_types) == (form, state_types):
            return kept
        bytes_max = self._limits.root_bytes_max
        if self._budget is not None:
            bytes_max = min(bytes_max, max(int(ROOT_SHARE * self._budget.limit_bytes), 1))
        return Body(
            self.layout,
            form,
            state_types,
            limits=self._limits,
            root_bytes_max=bytes_max,
            seed=self._seed,
            # Not a method, because a reference cycle from its body would delay the tree's deletion.
            suffer=partial(_suffer, self._budget),
        )

    def _take(self, body: Body, rows: SortedRows) -> None:
        rows = reform(rows, body.form, body.types)
        # The estimated number of rows if all blocks of the content are like this one.
        if rows.count << rows.bits >= self._limits.root_rows:
            body.hang(rows)
        else:
            body.merge(kernel.active.decode_run(rows.run), rows.states)

    def _form_with(self, keys: Sequence[pa.Array]) -> KeyForm:
        form = None if self._body is None else self._body.form
        if form is not None and all(
            column.type == data_type and (nullable or column.null_count == 0)
            for column, data_type, nullable in zip(keys, form.types, form.nullable, strict=True)
        ):
            return form
        return form_of(keys)

    def _wider(self, form: KeyForm, state_types: Types) -> tuple[KeyForm, Types]:
        body = self._body
        if body is not None and form is body.form and state_types == body.state_types:
            return form, state_types
        types = self.layout.unify(self.types, (*form.types, *state_types))
        if body is not None:
            form = unify_forms(body.form, form, self.layout.keys)
        return form, types[len(form.types) :]

    def _adopted(self, form: KeyForm, state_types: Types, keys: Sequence[pa.Array], rows: int) -> Body:
        """Return the body with a form and types from `_wider`, for these rows.

        Raises KeyTooLong if an existing key would become too long. Nothing has changed after an error.
        """
        body = self._body
        if body is None:
            body = self._body = self._new_body(form, state_types)
        elif form is not body.form or state_types != body.state_types:
            if form.has_bytes_of(body.form):
                body.promote(form, state_types)
            else:
                try:
                    body = self._body = self._rebuilt(body, form, state_types)
                except KeyTooLong:
                    raise KeyTooLong(_with_new_nulls(body.form, keys, rows)) from None
        return body

    def _rebuilt(self, body: Body, form: KeyForm, state_types: Types) -> Body:
        """Encode all keys again, after a first null, or for an integer key that becomes a float."""
        fresh = self._new_body(form, state_types)
        for rows in body.snapshot().rows():
            promoted = rows.promote(fresh.types)
            fresh.merge(encode(promoted.keys, form, rows.count), promoted.states)
            self._spill_early(fresh)
        return fresh

    def _check_layout(self, layout: Layout) -> None:
        if layout != self.layout:
            raise ValueError(f"partial aggregates of {layout} do not belong in {self.layout}")


def _suffer(budget: Budget | None, error: StorageError) -> None:
    if budget is None:
        raise error  # nothing was spilled, so the store cannot fail
    budget.problem = error


def _with_new_nulls(form: KeyForm, keys: Sequence[pa.Array], rows: int) -> np.ndarray:
    """Return which rows have a null that the form does not allow.

    Returns all rows if the form changes for another reason.
    """
    new = np.zeros(rows, np.bool_)
    for column, nullable in zip(keys, form.nullable, strict=False):
        if not nullable and column.null_count:
            new |= np.asarray(column.is_null())
    return np.flatnonzero(new) if new.any() else np.arange(rows)

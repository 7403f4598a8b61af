"""The compressed buffer tree: groupby-aggregates of all that was inserted, in little memory, merged lazily.

Inserts are grouped per batch and appended to the root's open buffer; that is all an insert costs until the
buffer is full. Then the buffer is combined; if the keys are few (a hot set) it stays, else it is pushed down
to the compressed buffers below (node.py). `flush` pushes everything to the leaves and reads them.

Owns: the plan (keys and aggregates), the root's open buffer, the types seen so far.
Refuses to know: time, windows, files, other agents.

Invariants:
    - `flush` equals one GROUP BY over all rows inserted since `empty`, whatever their order and batches.
    - A batch that does not fit (TypeConflict, DataError) changes nothing.
    - One writer at a time; heavy calls run in Arrow, numpy and zstd, which release the GIL.

Paper: ELF 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import normalise
from elfmesh.cbt.kernel import grouping
from elfmesh.cbt.laws import LAWS, State
from elfmesh.cbt.node import BufferNode, TreeLimits, grow_root
from elfmesh.cbt.rows import Layout, Rows, combine, empty_rows, finish_rows, from_table, to_table

ROOT_ROWS_MAX = 1 << 20
"""Keys in the root's open buffer: a hot set of up to half as many never leaves it (a root below the hot set
costs most of the speed), and at about 40 bytes a key it stays under the byte limit."""

ROOT_BYTES_MAX = 64 << 20
"""Bytes of the root's open, uncompressed buffer, for long keys and many aggregates."""

OPEN_ROWS_MIN = 1 << 16
"""Appended rows before the open buffer is combined: below, combining costs more than it saves."""

OPEN_BLOCKS_MAX = 256
"""Appended blocks before the open buffer is combined: bounds the overhead of many tiny inserts."""

SMALL_ROWS = 1 << 12
"""Blocks up to this size are combined together, whatever their order: a combine has a fixed cost."""

Aggregates = Mapping[str, tuple[str, str | None]]
"""Aggregate name -> (kind, input column or None for count of rows)."""


class Plan:
    """Keys and aggregates of one table, checked, and how a batch becomes PAO rows.

    Args:
        keys: key columns; none means one global group.
        aggregates: see `Aggregates`; none means a set of keys.

    Raises:
        ValueError: an unknown kind, a missing input, or a name used twice.
    """

    def __init__(self, keys: Sequence[str], aggregates: Aggregates) -> None:
        self.keys = tuple(keys)
        self.aggregates = {name: (kind, column) for name, (kind, column) in aggregates.items()}
        names = [*self.keys, *self.aggregates]
        if len(set(names)) != len(names):
            raise ValueError(f"a name is used twice in {names}")
        if not names:
            raise ValueError("a table needs a key or an aggregate")
        for name, (kind, column) in self.aggregates.items():
            if kind not in LAWS:
                raise ValueError(
                    f"aggregate {name!r} has the unknown kind {kind!r}, known are {sorted(LAWS)}"
                )
            if column is None and LAWS[kind].needs_input:
                raise ValueError(f"aggregate {name!r} of kind {kind} needs an input column")
        self.layout = Layout(self.keys, tuple((name, kind) for name, (kind, _) in self.aggregates.items()))

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The canonical key and value columns of a batch, each once.

        Raises:
            ValueError: a column is missing.
            DataError: a column cannot be a key, or not the input of its aggregates.
        """
        out: dict[str, pa.Array] = {}
        wanted = (*self.keys, *(column for _, column in self.aggregates.values() if column is not None))
        for name in wanted:
            if name not in out:
                place = batch.schema.get_field_index(name)
                if place < 0:
                    raise ValueError(f"batch has no column {name!r}, it has {batch.schema.names}")
                out[name] = normalise(batch.column(place), name)
        for name, (kind, column) in self.aggregates.items():
            LAWS[kind].value_type(None if column is None else out[column], name)
        return out

    def lift(self, columns: Mapping[str, pa.Array], rows: int) -> Rows:
        """Group one batch into PAO rows, one per key. Cost: a hashing of the keys, a pass per aggregate."""
        ids, groups, unique = grouping.group([columns[name] for name in self.keys], rows)
        return Rows(self.layout, groups, unique, self.lift_states(columns, ids, groups))

    def lift_states(self, columns: Mapping[str, pa.Array], ids: np.ndarray, groups: int) -> tuple[State, ...]:
        """States of raw values by group numbers that are already known."""
        return tuple(
            LAWS[kind].lift(None if column is None else columns[column], ids, groups)
            for kind, column in self.aggregates.values()
        )


class CompressedBufferTree:
    """Groupby-aggregates of all rows inserted since `empty`.

    Args:
        keys: key columns; any scalar Arrow type, null is a key. None: one global group.
        aggregates: name -> (kind, input column); kinds count, sum, min, max.
        root_rows_max: see ROOT_ROWS_MAX.
        root_bytes_max: see ROOT_BYTES_MAX.
        limits: sizes of the tree below the root buffer.

    Paper: ELF 2.2, "insert" to fill, "flush" to fetch the entire groupby-aggregate results, "empty" to empty
        the buffers.
    """

    def __init__(
        self,
        keys: Sequence[str],
        aggregates: Aggregates,
        *,
        root_rows_max: int = ROOT_ROWS_MAX,
        root_bytes_max: int = ROOT_BYTES_MAX,
        limits: TreeLimits | None = None,
    ) -> None:
        if root_rows_max < 1 or root_bytes_max < 1:
            raise ValueError("the root buffer needs a positive size")
        self._plan = Plan(keys, aggregates)
        self._root_rows_max = root_rows_max
        self._root_bytes_max = root_bytes_max
        self._limits = limits or TreeLimits()
        self.empty()

    def empty(self) -> None:
        """Erase everything, types too: start a new batch."""
        self._types = self._plan.layout.null_types
        # If anything was combined yet, first that (each key once), then appended blocks.
        self._open: list[Rows] = []
        self._open_rows = 0
        self._open_bytes = 0
        self._combined_rows = 0
        self._root: BufferNode | None = None

    def insert(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the key and value columns; others are ignored.

        Raises:
            ValueError: a column is missing.
            DataError: a column has no usable type (TypeConflict: or another than before). Nothing was added.

        Cost: one grouping of the batch; now and then a combine of the root buffer, or a push down.
        """
        if batch.num_rows:
            self._append(self._plan.lift(self._plan.columns(batch), batch.num_rows))

    def insert_partial(self, table: pa.Table) -> None:
        """Merge PAO rows, as `partial` gives them, of this or another tree of the same plan.

        Raises:
            ProtocolError: not a table of partial aggregates.
            ValueError: of another plan.
            TypeConflict: of types that do not fit. Nothing was added.
        """
        self.insert_rows(from_table(table))

    def insert_rows(self, rows: Rows) -> None:
        """The same for rows inside this room; keys may repeat."""
        if rows.layout != self._plan.layout:
            raise ValueError(f"partial aggregates of {rows.layout} do not belong in {self._plan.layout}")
        if rows.count:
            self._append(rows)

    def check_types(self, rows: Rows) -> None:
        """Raise TypeConflict if inserting these rows would."""
        self._plan.layout.unify(self._types, rows.types)

    def flush(self) -> pa.Table:
        """Key columns, then one column per aggregate; the state is kept. Row order is not promised.

        Cost: pushes everything down; unpacks every leaf.
        """
        return _stack([finish_rows(rows) for rows in self.snapshot()])

    def partial(self) -> pa.Table:
        """All PAO rows, each key once: key and state columns, as schema metadata says. The state is kept."""
        blocks = self.snapshot()
        # State columns vary with the values (limbs): blocks are laid together before they become a table.
        return to_table(blocks[0] if len(blocks) == 1 else combine(blocks, self._types))

    def snapshot(self) -> list[Rows]:
        """All rows in blocks of disjoint keys, at least one block; the state is kept."""
        self._combine_open()
        if self._root is None:
            return [self._open[0].promote(self._types)] if self._open else [empty_rows(self._plan.layout)]
        self.push_down()
        self._root = grow_root(self._root, self._root.settle(self._types, all_down=True), self._limits)
        blocks = []
        for leaf in self._root.leaves():
            if leaf.base is not None:
                rows = leaf.base.unpack()
                blocks.append(rows if rows.types == self._types else combine([rows], self._types))
        return blocks or [empty_rows(self._plan.layout, self._types)]

    def push_down(self) -> None:
        """Move the root's open buffer into the compressed buffers below, full or not."""
        self._combine_open()
        if not self._open:
            return
        if self._root is None:
            self._root = BufferNode(0, self._limits)
        self._root = grow_root(self._root, self._root.push(self._open[0], self._types), self._limits)
        self._open, self._open_rows, self._open_bytes, self._combined_rows = [], 0, 0, 0

    @property
    def nbytes(self) -> int:
        """Bytes held: open buffer, compressed buffers, and the objects around them."""
        return self._open_bytes + (self._root.nbytes if self._root else 0)

    @property
    def open_bytes(self) -> int:
        """Of these, what the root's open buffer holds uncompressed."""
        return self._open_bytes

    @property
    def rows(self) -> int:
        """PAO rows held; a key counts once per buffer that has it, so this is at least the number of keys."""
        return self._open_rows + (self._root.rows if self._root else 0)

    @property
    def depth(self) -> int:
        """Levels, the root's open buffer being the first."""
        return 1 + (self._root.depth if self._root else 0)

    def _append(self, rows: Rows) -> None:
        self._types = self._plan.layout.unify(self._types, rows.types)
        self._open.append(rows)
        self._open_rows += rows.count
        self._open_bytes += rows.nbytes
        appended = self._open_rows - self._combined_rows
        # Combining when the appended rows outnumber the combined ones makes its cost per row constant.
        many = appended > max(min(OPEN_ROWS_MIN, self._root_rows_max), self._combined_rows)
        if many or self._open_bytes > self._root_bytes_max:
            self._combine_open()
            if self._open_rows > self._root_rows_max // 2 or self._open_bytes > self._root_bytes_max // 2:
                self.push_down()
        elif len(self._open) > OPEN_BLOCKS_MAX:
            self._combine_tail()

    def _combine_open(self) -> None:
        if len(self._open) > 1 or (self._open and not self._combined_rows):
            self._combine_from(0)

    def _combine_tail(self) -> None:
        """Combine the newest blocks, without those that are much larger than all after them together."""
        start, newer_rows = len(self._open), 0
        while start and self._open[start - 1].count <= max(2 * newer_rows, SMALL_ROWS):
            start -= 1
            newer_rows += self._open[start].count
        self._combine_from(start)

    def _combine_from(self, start: int) -> None:
        self._open[start:] = [combine(self._open[start:], self._types)]
        self._open_rows = sum(rows.count for rows in self._open)
        self._open_bytes = sum(rows.nbytes for rows in self._open)
        if start == 0:
            self._combined_rows = self._open_rows


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

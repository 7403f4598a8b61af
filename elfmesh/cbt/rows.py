"""PAO rows: key columns and state columns in parallel, with operations to merge and finish them.

The schema metadata of an Arrow table marks each column as a key or as part of an aggregate's state. Key
columns are canonical, so equal keys have equal bytes.

Paper: ELF 2.2 (PAO; groupby-aggregate).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt import kernel
from elfmesh.cbt.columns import promote, type_from_name, type_name, unify
from elfmesh.cbt.errors import NotInvertible
from elfmesh.cbt.keys import TABLE_SEED, decode, encode, form_of, unify_forms
from elfmesh.cbt.laws import LAWS, State
from elfmesh.errors import ProtocolError

METADATA_KEY = b"elfmesh.pao"
ROWS_OVERHEAD_BYTES = 400
"""Python objects of one block of rows (measured: about 100 bytes per column)."""

Types = tuple[pa.DataType, ...]
"""Types of the key columns, followed by those of the aggregates' values."""


class Layout(Struct, frozen=True):
    """Names of a table's keys, and names and kinds of its aggregates, in column order."""

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]

    @property
    def null_types(self) -> Types:
        """Return the types before any value was seen: null, which unifies with every type."""
        counts = tuple(pa.int64() if kind == "count" else pa.null() for _, kind in self.aggregates)
        return (*(pa.null() for _ in self.keys), *counts)

    def unify(self, left: Types, right: Types) -> Types:
        if left == right:
            return left
        names = (*self.keys, *(name for name, _ in self.aggregates))
        return tuple(unify(*column) for column in zip(names, left, right, strict=True))


class Rows(Struct, frozen=True):
    """PAO rows of one layout: canonical key columns, and one state per aggregate."""

    layout: Layout
    count: int
    keys: tuple[pa.Array, ...]
    states: tuple[State, ...]

    @property
    def types(self) -> Types:
        return (*(key.type for key in self.keys), *(state.type for state in self.states))

    @property
    def nbytes(self) -> int:
        columns = sum(key.nbytes for key in self.keys) + sum(state.nbytes for state in self.states)
        return int(columns) + ROWS_OVERHEAD_BYTES

    def promote(self, types: Types) -> Rows:
        """Promote the rows to wider types.

        Different integer keys may become equal floats: call `combine` afterwards.
        """
        if self.types == types:
            return self
        keys = tuple(promote(key, types[place]) for place, key in enumerate(self.keys))
        state_types = types[len(keys) :]
        states = tuple(
            LAWS[state.kind].promote(state, wide)
            for state, wide in zip(self.states, state_types, strict=True)
        )
        return Rows(self.layout, self.count, keys, states)

    def take(self, places: np.ndarray) -> Rows:
        index = pa.array(places)
        keys = tuple(key.take(index) for key in self.keys)
        return Rows(self.layout, len(places), keys, tuple(state.take(places) for state in self.states))

    def slice(self, start: int, stop: int) -> Rows:
        keys = tuple(key[start:stop] for key in self.keys)
        return Rows(self.layout, stop - start, keys, tuple(state.slice(start, stop) for state in self.states))


def empty_rows(layout: Layout, types: Types | None = None) -> Rows:
    types = types or layout.null_types
    keys = tuple(pa.array([], data_type) for data_type in types[: len(layout.keys)])
    states = tuple(
        LAWS[kind].accumulator(data_type).freeze(0)
        for (_, kind), data_type in zip(layout.aggregates, types[len(keys) :], strict=True)
    )
    return Rows(layout, 0, keys, states)


def combine(blocks: Sequence[Rows], types: Types | None = None) -> Rows:
    """Merge rows of one layout by key, promoted to `types` or to the unified types of the blocks.

    Cost: one pass over all key bytes, one over each state column.
    """
    return combine_numbered(blocks, types)[0]


def combine_numbered(blocks: Sequence[Rows], types: Types | None = None) -> tuple[Rows, list[np.ndarray]]:
    """As `combine`, and return for each block the rows of the result to which its rows belong.

    Rows of the result are in the order in which their keys occur first.
    """
    layout = blocks[0].layout
    if types is None:
        types = blocks[0].types
        for block in blocks[1:]:
            types = layout.unify(types, block.types)
    blocks = [block.promote(types) for block in blocks]
    form = form_of(blocks[0].keys)
    for block in blocks[1:]:
        form = unify_forms(form, form_of(block.keys), layout.keys)
    table = kernel.active.table(TABLE_SEED)
    ids = [table.upsert(encode(block.keys, form, block.count)) for block in blocks]
    states = []
    for place, (_, kind) in enumerate(layout.aggregates):
        accumulator = LAWS[kind].accumulator(blocks[0].states[place].type)
        for block, own in zip(blocks, ids, strict=True):
            accumulator.merge(block.states[place], own, table.rows)
        states.append(accumulator.freeze(table.rows))
    return Rows(layout, table.rows, decode(table.keys(), form), tuple(states)), ids


def within_groups(rows: Rows, groups: Rows) -> np.ndarray:
    """Return the places of the rows whose first keys are the keys of one of the groups."""
    names = groups.layout.keys
    own = rows.keys[: len(names)]
    form = unify_forms(form_of(groups.keys), form_of(own), names)
    table = kernel.active.table(TABLE_SEED)
    table.upsert(encode(groups.keys, form, groups.count))
    known = table.rows
    return np.flatnonzero(table.upsert(encode(own, form, rows.count)) < known)


def subtract_rows(whole: Rows, part: Rows) -> Rows:
    """Return the groups of `whole` without the records of `part`; groups without a record are removed.

    Raises NotInvertible if an aggregate has no inverse, or if there is no count(*) to tell which groups
    remain, and ValueError if `part` is not contained in `whole`.

    Paper: ELF 2.2, PAO15 minus PAO5.
    """
    counters = [
        place for place, state in enumerate(whole.states) if state.kind == "count" and "rows" in state.parts
    ]
    if not counters or not all(LAWS[kind].invertible for _, kind in whole.layout.aggregates):
        kinds = ", ".join(f"{name} ({kind})" for name, kind in whole.layout.aggregates)
        raise NotInvertible(
            f"cannot subtract partial aggregates of {kinds or 'keys only'}",
            hint="Only count and sum have an inverse, and a count(*) must be among them.",
        )
    negated = tuple(LAWS[state.kind].negate(state) for state in part.states)
    merged = combine([whole, Rows(part.layout, part.count, part.keys, negated)])
    left = merged.states[counters[0]].parts["rows"]
    if (left < 0).any():
        raise ValueError("subtracted partial aggregates that are not part of the whole")
    return merged.take(np.flatnonzero(left))


class _StateColumns(msgspec.Struct, array_like=True, frozen=True):
    name: str
    kind: str
    type: str
    parts: tuple[str, ...]


class _Metadata(msgspec.Struct, array_like=True, frozen=True):
    """Description of the columns of a PAO table, in order: keys, then the parts of each state."""

    keys: tuple[str, ...]
    states: tuple[_StateColumns, ...]


_encode_marks = msgspec.json.Encoder().encode
_decode_marks = msgspec.json.Decoder(_Metadata).decode


@lru_cache(maxsize=256)
def _schema_metadata(keys: tuple[str, ...], states: tuple[_StateColumns, ...]) -> dict[bytes, bytes]:
    return {METADATA_KEY: _encode_marks(_Metadata(keys, states))}


def to_table(rows: Rows) -> pa.Table:
    """Convert PAO rows to an Arrow table.

    Metadata `elfmesh.pao` marks each column as a key or part of a state.
    """
    arrays, names, marks = list(rows.keys), list(rows.layout.keys), []
    for (name, kind), state in zip(rows.layout.aggregates, rows.states, strict=True):
        marks.append(_StateColumns(name, kind, type_name(state.type), tuple(state.parts)))
        for part, column in state.parts.items():
            names.append(f"{name}:{part}")
            arrays.append(pa.array(column) if isinstance(column, np.ndarray) else column)
    metadata = _schema_metadata(rows.layout.keys, tuple(marks))
    return pa.Table.from_arrays(arrays, names=names, metadata=metadata)


def from_table(table: pa.Table) -> Rows:
    try:
        marks = _decode_marks((table.schema.metadata or {})[METADATA_KEY])
        arrays = [_one_array(column) for column in table.columns]
        width = len(marks.keys)
        if len(arrays) != width + sum(len(state.parts) for state in marks.states):
            raise ValueError("number of columns")
        states, place = [], width
        for mark in marks.states:
            parts = {}
            for part in mark.parts:
                column = arrays[place]
                plain = part != "value" and column.type == pa.int64()
                parts[part] = column.to_numpy(zero_copy_only=True) if plain else column
                place += 1
            states.append(checked_state(mark.kind, mark.type, parts, table.num_rows))
    except (KeyError, ValueError, msgspec.DecodeError) as error:
        raise ProtocolError(f"not a table of partial aggregates: {error}") from None
    layout = Layout(marks.keys, tuple((mark.name, mark.kind) for mark in marks.states))
    return Rows(layout, table.num_rows, tuple(arrays[:width]), tuple(states))


def checked_state(kind: str, type_text: str, parts: dict[str, np.ndarray | pa.Array], rows: int) -> State:
    law = LAWS.get(kind)
    if law is None:
        raise ValueError(f"unknown aggregate {kind!r}")
    state = State(kind, type_from_name(type_text), parts)
    law.check(state, rows)
    return state


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def finish_rows(rows: Rows) -> pa.Table:
    finished = [LAWS[state.kind].finish(state, rows.count) for state in rows.states]
    names = [*rows.layout.keys, *(name for name, _ in rows.layout.aggregates)]
    return pa.Table.from_arrays([*rows.keys, *finished], names=names)

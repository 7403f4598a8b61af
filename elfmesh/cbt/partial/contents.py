"""Content of a table with one interface, whether in memory, in a tree, in several panes or on the wire.

`rows` and `sorted` return each key once, in the types and the form of the content. A merge of contents of
different forms is exact: if key bytes change, keys may change positions and become equal.

Paper: ELF 2.2 (PAOs are merged wherever two meet).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from elfmesh.cbt.codec.blocks import read_block, write_block
from elfmesh.cbt.keys import KeyForm, form_of, unify_forms
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.partial_walk import STEP_BITS, BlockStream, SortedBlocks, merge_streams
from elfmesh.cbt.rows import Layout, Rows, Types, combine, empty_rows, finish_rows
from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted, reform, sort_rows, to_rows

SMALL_ROWS = 1 << 14
"""Rows up to which parts are grouped in memory instead of sorted and merged."""

SMALL_BYTES = 1 << 20
"""Bytes of a block, and of its keys, up to which it is written unchanged."""

_BLOCK_ROWS = 1 << 16
"""Approximate rows of a block that is sorted in memory."""


class Content(Protocol):
    """Rows of one table."""

    @property
    def layout(self) -> Layout: ...

    @property
    def types(self) -> Types: ...

    @property
    def form(self) -> KeyForm: ...

    @property
    def rows_max(self) -> int: ...

    def rows(self) -> Iterator[Rows]:
        """Yield blocks of disjoint keys in any order."""
        ...

    def sorted(self) -> Iterator[SortedRows]:
        """Yield blocks of disjoint prefixes, ascending."""
        ...


class RowsContent:
    """Rows in memory, each key once."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.layout = rows.layout
        self.types = rows.types
        self.form = form_of(rows.keys)
        self.rows_max = rows.count

    def rows(self) -> Iterator[Rows]:
        yield self._rows

    def sorted(self) -> Iterator[SortedRows]:
        yield from sort_rows(self._rows, bits_for(self._rows.count))


class SortedContent:
    """Sorted blocks in memory, from `Content.sorted` of another content."""

    def __init__(self, content: Content, blocks: Sequence[SortedRows]) -> None:
        self.layout, self.types, self.form = content.layout, content.types, content.form
        self._blocks = tuple(blocks)
        self.rows_max = sum(block.count for block in self._blocks)
        self.nbytes = sum(block.nbytes for block in self._blocks)
        states = self._blocks[0].states if self._blocks else ()
        self.counted = tuple(",".join(state.parts) if state.kind == "count" else None for state in states)

    @property
    def small_block(self) -> SortedRows | None:
        """Return the only block if it needs neither splitting nor joining."""
        if len(self._blocks) != 1 or self._blocks[0].bits or self._blocks[0].run.key_bytes > SMALL_BYTES:
            return None
        return self._blocks[0] if self.nbytes <= SMALL_BYTES else None

    def rows(self) -> Iterator[Rows]:
        return map(to_rows, self._blocks)

    def sorted(self) -> Iterator[SortedRows]:
        return iter(self._blocks)


def sorted_within(content: Content, bytes_max: int) -> SortedContent | None:
    """Return a content's sorted blocks in memory; None if they take more than `bytes_max`."""
    blocks: list[SortedRows] = []
    size = 0
    for block in content.sorted():
        blocks.append(block)
        size += block.nbytes
        if size > bytes_max:
            return None
    return SortedContent(content, blocks)


class _Narrowed:
    """Content without its last aggregates."""

    def __init__(self, content: Content, layout: Layout) -> None:
        self._content = content
        self.layout = layout
        self.form = content.form
        self.types = content.types[: len(layout.keys) + len(layout.aggregates)]
        self.rows_max = content.rows_max

    def rows(self) -> Iterator[Rows]:
        for rows in self._content.rows():
            yield Rows(self.layout, rows.count, rows.keys, rows.states[: len(self.layout.aggregates)])

    def sorted(self) -> Iterator[SortedRows]:
        for rows in self._content.sorted():
            yield replace(rows, layout=self.layout, states=rows.states[: len(self.layout.aggregates)])


def narrowed(content: Content, layout: Layout) -> Content:
    """Return a content with only the first of its aggregates, those of `layout`."""
    return content if content.layout == layout else _Narrowed(content, layout)


class MergedContent:
    """Several contents of one layout, merged by key."""

    def __init__(self, parts: Sequence[Content]) -> None:
        self._parts = parts
        self.layout = parts[0].layout
        self.types, self.form = parts[0].types, parts[0].form
        for part in parts[1:]:
            if part.layout != self.layout:
                raise ValueError(f"contents of {part.layout} and {self.layout} do not merge")
            self.types = self.layout.unify(self.types, part.types)
            self.form = unify_forms(self.form, part.form, self.layout.keys)
        self.rows_max = sum(part.rows_max for part in parts)

    def rows(self) -> Iterator[Rows]:
        """See `Content`. Cost: few unsorted rows are grouped in memory; others are merged as runs."""
        if self.rows_max > SMALL_ROWS or all(hasattr(part, "stream") for part in self._parts):
            yield from map(to_rows, self.sorted())
        elif blocks := [rows for part in self._parts for rows in part.rows()]:
            yield combine(blocks, self.types)

    def sorted(self) -> Iterator[SortedRows]:
        """See `Content`. Cost: a k-way merge of sorted runs, prefix by prefix."""
        return merge_streams([stream_of(part, self.form, self.types) for part in self._parts])


def bits_for(rows: int) -> int:
    bits = 0
    while rows >> bits > _BLOCK_ROWS and bits < 16:
        bits += STEP_BITS
    return bits


def all_rows(content: Content) -> Rows:
    blocks = list(content.rows())
    if not blocks:
        return empty_rows(content.layout, content.types)
    if len(blocks) == 1:
        return blocks[0]
    count = sum(rows.count for rows in blocks)
    keys = tuple(pa.concat_arrays(column) for column in zip(*(rows.keys for rows in blocks), strict=True))
    # State columns vary with the values (limbs), so concatenating blocks is a merge as well.
    places = np.arange(count)
    states = tuple(
        LAWS[kind].merge([rows.states[place] for rows in blocks], places, count)
        for place, (_, kind) in enumerate(content.layout.aggregates)
    )
    return Rows(content.layout, count, keys, states)


def finished(content: Content) -> pa.Table:
    """Return the finalised columns. Cost: block by block; memory for the result and one block."""
    tables = [finish_rows(rows) for rows in content.rows()]
    if not tables:
        return finish_rows(empty_rows(content.layout, content.types))
    schema = tables[0].schema
    for table in tables[1:]:
        for place, field in enumerate(table.schema):
            if _width(field.type) > _width(schema.field(place).type):
                schema = schema.set(place, field)
    return pa.concat_tables([table.cast(schema) for table in tables]) if len(tables) > 1 else tables[0]


class FinishedBlocks:
    """Content as finalised columns, block by block, with at least `rows_max` rows."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.rows_max = content.rows_max

    def blocks(self) -> Iterator[pa.Table]:
        """Yield tables of disjoint keys; a sum's type may be wider in some. May be called repeatedly."""
        return map(finish_rows, self._content.rows())


def _width(data_type: pa.DataType) -> int:
    """Return a sort key of the types in which one exact sum may finish; blocks may differ."""
    if pa.types.is_decimal(data_type):
        return int(data_type.bit_width)
    return 0 if pa.types.is_null(data_type) else 1


def stream_of(content: Content, form: KeyForm, types: Types) -> SortedBlocks:
    if not form.has_bytes_of(content.form):
        return BlockStream(_regrouped(content, form, types))
    own = getattr(content, "stream", None)
    stream: SortedBlocks = own() if own is not None else BlockStream(content.sorted())
    return stream if (content.form, content.types) == (form, types) else _Retyped(stream, form, types)


class _Retyped:
    """Stream whose states are promoted; its keys are unchanged."""

    def __init__(self, stream: SortedBlocks, form: KeyForm, types: Types) -> None:
        self._stream, self._form, self._types = stream, form, types
        self.peek = stream.peek

    def take(self) -> SortedRows:
        return reform(self._stream.take(), self._form, self._types)


def _regrouped(content: Content, form: KeyForm, types: Types) -> Iterator[SortedRows]:
    """Encode the keys of a content again, which changes their placement.

    Cost: everything is sorted again and kept compressed, then unpacked prefix by prefix.
    """
    bits = bits_for(content.rows_max)
    kept: dict[int, list[bytes]] = {}
    for rows in content.rows():
        for piece in sort_rows(rows.promote(types), bits, form):
            kept.setdefault(piece.prefix, []).append(write_block(piece))
    for prefix in sorted(kept):
        pieces = [read_block(block, trusted=True) for block in kept.pop(prefix)]
        yield merge_sorted(pieces) if len(pieces) > 1 else pieces[0]

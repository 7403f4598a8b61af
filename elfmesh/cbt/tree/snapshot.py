"""Snapshot of a tree, which can be read once or often, whatever is inserted later.

Buffers never change, so a snapshot is a list of them and a copy of the root's rows. Reading merges one leaf
at a time; each key is returned once, in the tree's types at the time of the snapshot. Blocks of `sorted`
ascend by their prefixes and do not overlap.

Paper: ELF 2.2 ("flush" fetches the entire results).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.limits import STEP_BITS
from elfmesh.cbt.rows import Layout, Rows, Types
from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted, partition_sorted, reform, to_rows
from elfmesh.cbt.tree.buffer import CompressedBuffer, Press
from elfmesh.cbt.tree.hot import HotRows
from elfmesh.cbt.tree.node import BufferNode

ROOT_BLOCK_ROWS = 1 << 16
"""Approximate rows of one block of a sorted root: as many as of a leaf."""
_PLACE_BITS_MAX = 16


class FrozenNode(Struct, frozen=True):
    """Immutable copy of a member of the tree."""

    bits: int
    prefix: int
    child_bits: int
    buffers: tuple[CompressedBuffer, ...]
    children: tuple[FrozenNode, ...]


def freeze(node: BufferNode) -> FrozenNode:
    buffers = tuple(node.runs) if node.base is None else (node.base, *node.runs)
    children = tuple(freeze(child) for child in node.children)
    return FrozenNode(node.bits, node.prefix, node.child_bits, buffers, children)


class Snapshot:
    """Snapshot of a tree; in `rows_max` a key counts once per buffer that contains it."""

    def __init__(
        self,
        layout: Layout,
        form: KeyForm,
        types: Types,
        hot: HotRows | None,
        top: FrozenNode | None,
        rows_max: int,
    ) -> None:
        self.layout = layout
        self.form = form
        self.types = types
        self.rows_max = rows_max
        self._hot = hot
        self._top = top

    def rows(self) -> Iterator[Rows]:
        """Yield all rows in blocks of disjoint keys, in any order; a root alone is not sorted."""
        if self._top is None:
            if self._hot is not None:
                yield self._hot.rows()
            return
        for block in self.sorted():
            yield to_rows(block)

    def sorted(self, bits_min: int = 0) -> Iterator[SortedRows]:
        """Yield all rows in order, in non-empty blocks that share `bits_min` (0, 4, ... 16) bits of the hash.

        Cost: a sort of the root's rows; per leaf a decompression, and a merge if it has pending runs.
        """
        for block in self._blocks(bits_min):
            if block.bits >= bits_min:
                yield block
            else:
                parts = partition_sorted(block, bits_min - block.bits)
                yield from (part for part in parts if part.count)

    def _blocks(self, bits_min: int) -> Iterator[SortedRows]:
        hot, top = self._hot, self._top
        if top is None:
            if hot is not None:
                bits = bits_min
                while hot.count >> bits > ROOT_BLOCK_ROWS and bits < _PLACE_BITS_MAX:
                    bits += STEP_BITS
                yield from hot.sorted(bits)
            return
        bits = top.child_bits if top.children else 0
        more = {} if hot is None else {part.prefix: part for part in hot.sorted(bits)}
        press = Press()
        if top.children:
            for child in top.children:
                part = more.pop(child.prefix, None)
                yield from self._read(child, part, press)
        else:
            yield from self._read(top, more.get(0), press)

    def _read(self, node: FrozenNode, above: SortedRows | None, press: Press) -> Iterator[SortedRows]:
        blocks = [
            replace(block, bits=node.bits, prefix=node.prefix)
            for block in (buffer.unpack(press) for buffer in node.buffers)
        ]
        if above is not None and above.count:
            blocks.append(above)
        rows = merge_sorted(blocks) if blocks else None
        if not node.children:
            if rows is not None:
                yield reform(rows, self.form, self.types)
            return
        parts: list[SortedRows | None] = [None] * len(node.children)
        if rows is not None:
            parts[:] = partition_sorted(rows, node.child_bits)
        del blocks, rows, above
        for place, child in enumerate(node.children):
            part, parts[place] = parts[place], None
            yield from self._read(child, part, press)

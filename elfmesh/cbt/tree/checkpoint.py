"""Checkpoint of a tree as frames of bytes: a head with the plan, blocks, and an end with their number.

A truncated or damaged checkpoint, or one of another plan, raises ProtocolError; it never passes as complete.

Paper: ELF 3 (recomputation from the last checkpoint).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from elfmesh.cbt.codec.blocks import frame, read_block, split_frames, unframe, write_block
from elfmesh.cbt.columns import type_from_name, type_name
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.rows import Layout, Types
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.cbt.tree.snapshot import Snapshot
from elfmesh.errors import ProtocolError

MAGIC = "ECBT"
VERSION = 1


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """Frame before the blocks."""

    magic: str
    version: int
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]
    nullable: tuple[bool, ...]
    types: tuple[str, ...]
    rows_max: int


class _End(msgspec.Struct, array_like=True, frozen=True):
    """Frame after the blocks."""

    blocks: int
    rows: int


_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_end = msgspec.msgpack.Decoder(_End).decode


def save(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield frames, in order. Cost: as `Snapshot.sorted`, and a compression; one leaf in memory at a time."""
    head = _Head(
        MAGIC,
        VERSION,
        snapshot.layout.keys,
        snapshot.layout.aggregates,
        snapshot.form.nullable,
        tuple(type_name(data_type) for data_type in snapshot.types),
        snapshot.rows_max,
    )
    yield frame(_encode(head))
    blocks = rows = 0
    for block in snapshot.sorted():
        blocks += 1
        rows += block.count
        yield write_block(block)
    yield frame(_encode(_End(blocks, rows)))


class Checkpoint:
    """Reader of frames from `save`, cut anywhere, of this layout."""

    def __init__(self, chunks: Iterable[bytes], layout: Layout) -> None:
        self._frames = split_frames(chunks)
        try:
            head = _decode_head(unframe(next(self._frames, b"")))
            types: Types = tuple(type_from_name(name) for name in head.types)
        except (msgspec.DecodeError, ValueError) as error:
            raise ProtocolError(f"not the beginning of a checkpoint: {error}") from None
        if (head.magic, head.version) != (MAGIC, VERSION):
            raise ProtocolError(f"not a checkpoint of version {VERSION}")
        if Layout(head.keys, head.aggregates) != layout:
            raise ProtocolError("a checkpoint of another plan")
        if len(types) != len(layout.keys) + len(layout.aggregates) or len(head.nullable) != len(layout.keys):
            raise ProtocolError("a checkpoint without a type per column")
        self._layout = layout
        self.types = types
        self.form = KeyForm(types[: len(layout.keys)], head.nullable)
        self.rows_max = head.rows_max

    def blocks(self) -> Iterator[SortedRows]:
        """Yield the rows in blocks of disjoint prefixes.

        After a ProtocolError all of them must be discarded.
        """
        last = next(self._frames, b"")
        blocks = rows = 0
        for data in self._frames:
            block = read_block(last)
            if (block.layout, block.form) != (self._layout, self.form):
                raise ProtocolError("a checkpoint with a block of another plan")
            if tuple(state.type for state in block.states) != self.types[len(self._layout.keys) :]:
                raise ProtocolError("a checkpoint with a block of other types")
            blocks += 1
            rows += block.count
            yield block
            last = data
        try:
            end = _decode_end(unframe(last))
        except msgspec.DecodeError:
            raise ProtocolError("a checkpoint is cut off") from None
        if (end.blocks, end.rows) != (blocks, rows):
            raise ProtocolError("a checkpoint lacks blocks")

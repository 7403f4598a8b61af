"""Bytes of a partial: named tables, each a stream of sorted blocks that are read one at a time.

    magic "EPAO" | version u8 | crc32 u32 of the rest | header length u32 | header | one zstd frame per block

The header describes the columns of each table and, for each block, its prefix, rows and chunks, so that a
reader can subtract its memory from a budget before decompression. Any bytes give tables or a ProtocolError.
Blocks of a table have disjoint prefixes, ascending.

Paper: ELF 2.2, 2.3 (PAOs "roll up" along the tree).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from elfmesh.cbt.codec.blocks import Squeezer, unfold
from elfmesh.cbt.codec.codec import (
    KeyHeader,
    PackedHeader,
    StateHeader,
    pack,
    unpack,
    unpacked_bytes,
)
from elfmesh.cbt.columns import type_from_name, type_name
from elfmesh.cbt.errors import PartialTooLarge
from elfmesh.cbt.keys import KeyForm
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.contents import Content
from elfmesh.cbt.partial.partial_walk import STEP_BITS
from elfmesh.cbt.rows import Layout, Rows, Types, empty_rows
from elfmesh.cbt.sorted_rows import SortedRows, to_rows
from elfmesh.errors import DataError, ProtocolError

MAGIC = b"EPAO"
VERSION = 2

TABLES_MAX = 64
"""Maximum number of tables of one partial: one, plus one per distinct aggregate of the query."""

BLOCKS_MAX = 1 << 14
"""Maximum number of blocks of one partial, of all tables; with a few thousand keys each, far more than a
message can hold."""

HEADER_BYTES_MAX = 16 << 20
"""Maximum number of bytes of the header: a kilobyte per block."""

BLOCK_BYTES_MAX = 64 << 20
"""Maximum number of bytes of one decompressed block. Our own blocks have a few MB; only keys chosen to
collide give larger ones."""

PARTIAL_BYTES_MAX = 1 << 30
"""Maximum number of bytes of all decompressed blocks, one after the other; bounds the work for a message of
16 MB."""

_PREFIX = struct.Struct(">4sBII")
_CHECKED_FROM = 9
_TOP_BITS = 64


class _Aggregate(msgspec.Struct, array_like=True, frozen=True):
    """Aggregate of a table."""

    name: str
    kind: str
    type: str


class _Block(msgspec.Struct, array_like=True, frozen=True):
    """Block: bytes of its frame, sizes of its chunks, and the header of its rows."""

    frame: int
    sizes: tuple[int, ...]
    rows: PackedHeader


class _Table(msgspec.Struct, array_like=True, frozen=True):
    name: str
    keys: tuple[KeyHeader, ...]
    aggregates: tuple[_Aggregate, ...]
    blocks: tuple[_Block, ...]


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(tuple[_Table, ...]).decode


class PartialWriter:
    """Writer of a partial of at most `bytes_max` bytes (None: no limit), from compressed blocks.

    The writers of one thread may share a `squeezer`.
    """

    def __init__(self, squeezer: Squeezer | None = None, bytes_max: int | None = None) -> None:
        self._squeezer = squeezer or Squeezer()
        self._bytes_max = bytes_max
        self._squeezed = 0
        self._tables: list[_Table] = []
        self._blocks: list[_Block] = []
        self._frames: list[bytes] = []
        self._count = self._unfolded = 0

    def begin_table(self) -> None:
        self._blocks = []

    def add_block(self, block: SortedRows) -> None:
        """Write the next block of a stream. Raises PartialTooLarge if receivers would refuse the partial."""
        packed = pack(block)
        size = unpacked_bytes(packed.header)
        self._unfolded += size
        self._count += 1
        if size > BLOCK_BYTES_MAX or self._unfolded > PARTIAL_BYTES_MAX or self._count > BLOCKS_MAX:
            raise PartialTooLarge(
                f"a partial result of {self._unfolded} bytes in {self._count} blocks, the last of {size}, is"
                f" over a limit: {PARTIAL_BYTES_MAX} bytes, {BLOCKS_MAX} blocks of {BLOCK_BYTES_MAX}",
                hint="Give the job more PARTITIONS, so that its keys are split over several trees.",
            )
        frame = self._squeezer.squeeze(b"".join(packed.chunks))
        self._squeezed += len(frame)
        if self._bytes_max is not None and self._squeezed > self._bytes_max:
            raise PartialTooLarge(
                f"a partial result takes more than the {self._bytes_max} bytes that one message carries",
                hint="Group by fewer keys, or give the job more PARTITIONS.",
            )
        self._blocks.append(_Block(len(frame), tuple(len(chunk) for chunk in packed.chunks), packed.header))
        self._frames.append(frame)

    def end_table(self, name: str, content: Content) -> None:
        self._tables.append(_describe(name, content, tuple(self._blocks)))

    def finish(self) -> bytes:
        """Return all bytes; b"" if no table has a row.

        Raises PartialTooLarge if the header exceeds its limit.
        """
        if not 1 <= len(self._tables) <= TABLES_MAX:
            raise ProtocolError(f"a partial of {len(self._tables)} tables")
        if not self._frames:
            return b""
        header = _encode_header(self._tables)
        if len(header) > HEADER_BYTES_MAX:
            raise PartialTooLarge(
                f"the header of a partial result takes {len(header)} bytes, over {HEADER_BYTES_MAX}",
                hint="Give the job more PARTITIONS, so that its keys are split over several trees.",
            )
        body = b"".join((len(header).to_bytes(4, "big"), header, *self._frames))
        return b"".join((MAGIC, bytes([VERSION]), zlib.crc32(body).to_bytes(4, "big"), body))


def _describe(name: str, content: Content, blocks: tuple[_Block, ...]) -> _Table:
    layout, form = content.layout, content.form
    columns = zip(layout.keys, form.types, form.nullable, strict=True)
    keys = tuple(KeyHeader(key, type_name(data_type), null) for key, data_type, null in columns)
    types = content.types[len(keys) :]
    aggregates = tuple(
        _Aggregate(aggregate, kind, type_name(data_type))
        for (aggregate, kind), data_type in zip(layout.aggregates, types, strict=True)
    )
    return _Table(name, keys, aggregates, blocks)


class WireContent:
    """Table of a partial: a `Content` whose blocks are decompressed when they are read.

    `counted` has for each count what it counts, "rows" or "values", None for other kinds; () if there are no
    blocks. `unpacked_bytes` is the memory of all rows.
    """

    def __init__(self, table: _Table, frames: memoryview) -> None:
        self.layout = Layout(
            tuple(key.name for key in table.keys), tuple((a.name, a.kind) for a in table.aggregates)
        )
        key_types = tuple(type_from_name(key.type) for key in table.keys)
        self.form = KeyForm(key_types, tuple(key.nullable for key in table.keys))
        self.types: Types = (*key_types, *(type_from_name(a.type) for a in table.aggregates))
        self.rows_max = sum(block.rows.rows for block in table.blocks)
        self.unpacked_bytes = sum(unpacked_bytes(block.rows) for block in table.blocks)
        self.counted = _check_blocks(table)
        if not table.blocks:
            _check_empty(self.layout, self.types)
        self._blocks = table.blocks
        self._frames = frames

    def stream(self) -> WireStream:
        return WireStream(self._blocks, self._frames)

    def sorted(self) -> Iterator[SortedRows]:
        stream = self.stream()
        while stream.peek() is not None:
            yield stream.take()

    def rows(self) -> Iterator[Rows]:
        return map(to_rows, self.sorted())


class WireStream:
    """Blocks of a table in the order of their prefixes; the next prefix is known from the header alone."""

    def __init__(self, blocks: tuple[_Block, ...], frames: memoryview) -> None:
        self._blocks, self._frames = blocks, frames
        self._next = self._at = 0

    def peek(self) -> tuple[int, int] | None:
        if self._next == len(self._blocks):
            return None
        header = self._blocks[self._next].rows
        return header.bits, header.prefix

    def take(self) -> SortedRows:
        block = self._blocks[self._next]
        frame = self._frames[self._at : self._at + block.frame]
        self._next += 1
        self._at += block.frame
        chunks = unfold(frame, block.sizes)
        return unpack(block.rows, chunks, trusted=False, budget_bytes=BLOCK_BYTES_MAX)


def open_partial(data: bytes) -> dict[str, WireContent]:
    """Return the tables of a partial without reading their blocks. Raises ProtocolError."""
    if not data:
        return {}
    try:
        magic, version, checksum, header_bytes = _PREFIX.unpack_from(data)
    except struct.error:
        raise ProtocolError("a partial aggregate is cut off") from None
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"not a partial aggregate of version {VERSION}")
    view = memoryview(data)
    if zlib.crc32(view[_CHECKED_FROM:]) != checksum:
        raise ProtocolError("a partial aggregate has a wrong checksum")
    start = _PREFIX.size + header_bytes
    if header_bytes > HEADER_BYTES_MAX or start > len(data):
        raise ProtocolError("a partial aggregate with too large a header")
    try:
        tables = _decode_header(view[_PREFIX.size : start])
        _check_limits(tables, len(data) - start)
        out = {}
        for table in tables:
            size = sum(block.frame for block in table.blocks)
            out[table.name] = WireContent(table, view[start : start + size])
            start += size
    except (ValueError, KeyError, OverflowError, pa.ArrowException, msgspec.DecodeError) as error:
        raise ProtocolError(f"malformed partial aggregate: {error}") from None
    return out


def _check_limits(tables: tuple[_Table, ...], frames_bytes: int) -> None:
    if not 1 <= len(tables) <= TABLES_MAX or len({table.name for table in tables}) != len(tables):
        raise ValueError("its tables")
    blocks = [block for table in tables for block in table.blocks]
    if len(blocks) > BLOCKS_MAX:
        raise ValueError(f"{len(blocks)} blocks are over {BLOCKS_MAX}")
    if any(block.frame < 0 for block in blocks) or sum(block.frame for block in blocks) != frames_bytes:
        raise ValueError("its blocks do not fill it")
    unfolded = 0
    for block in blocks:
        if any(size < 0 for size in block.sizes) or block.rows.rows < 1:
            raise ValueError("a block of nothing")
        size = max(sum(block.sizes), unpacked_bytes(block.rows))
        unfolded += size
        if size > BLOCK_BYTES_MAX or unfolded > PARTIAL_BYTES_MAX:
            raise ValueError(
                f"it unfolds to more than {PARTIAL_BYTES_MAX} bytes, or {BLOCK_BYTES_MAX} in a block"
            )


def _check_blocks(table: _Table) -> tuple[str | None, ...]:
    aggregates = [(a.name, a.kind, a.type) for a in table.aggregates]
    counted: set[tuple[str | None, ...]] = set()
    end = 0
    for block in table.blocks:
        header = block.rows
        if header.keys != table.keys or [(s.name, s.kind, s.type) for s in header.states] != aggregates:
            raise ValueError("a block of other columns than its table")
        if not 0 <= header.bits <= _TOP_BITS or header.bits % STEP_BITS or header.prefix >> header.bits:
            raise ValueError(f"a place of {header.bits} bits: {header.prefix}")
        low = header.prefix << (_TOP_BITS - header.bits)
        if low < end:
            raise ValueError("blocks out of order")
        end = low + (1 << (_TOP_BITS - header.bits))
        counted.add(tuple(_counted(state) for state in header.states))
    if len(counted) > 1:
        raise ValueError("counts of rows and of values in one column")
    return counted.pop() if counted else ()


def _check_empty(layout: Layout, types: Types) -> None:
    names = [*layout.keys, *(name for name, _ in layout.aggregates)]
    if not names or len(set(names)) != len(names):
        raise ValueError("a table without columns, or a name used twice")
    for kind in (kind for _, kind in layout.aggregates if kind not in LAWS):
        raise ValueError(f"unknown aggregate {kind!r}")
    try:
        if empty_rows(layout, types).types != types:
            raise ValueError("types that its aggregates do not have")
    except DataError as error:
        raise ValueError(error.message) from None


def _counted(state: StateHeader) -> str | None:
    return ",".join(column.name for column in state.columns) if state.kind == "count" else None

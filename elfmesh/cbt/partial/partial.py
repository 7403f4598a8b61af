"""Partials: partial aggregates as self-describing bytes, so that merging needs no plan.

A partial is a set of named tables; b"" has no rows. `decode_partial` of any bytes returns tables or raises
ProtocolError, within bounded memory. `merge_partials` is associative and commutative except for the
boundaries of blocks. Splitting sends a key to the same part on every agent. One block of each table or part
is in memory at a time.

Paper: ELF 2.2, 2.3 (PAOs "roll up" along the tree).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from elfmesh.cbt.codec.blocks import Squeezer
from elfmesh.cbt.errors import PartialTooLarge
from elfmesh.cbt.partial.contents import (
    Content,
    FinishedBlocks,
    MergedContent,
    RowsContent,
    SortedContent,
    all_rows,
    finished,
    sorted_within,
    stream_of,
)
from elfmesh.cbt.partial.partial_split import split_sorted
from elfmesh.cbt.partial.partial_walk import BLOCK_BYTES_WANTED, cut_block, merge_streams
from elfmesh.cbt.partial.partial_wire import PARTIAL_BYTES_MAX, PartialWriter, WireContent, open_partial
from elfmesh.cbt.rows import Rows, from_table, subtract_rows, to_table
from elfmesh.cbt.sorted_rows import SortedRows
from elfmesh.errors import ProtocolError

Known: TypeAlias = Mapping[bytes, Mapping[str, SortedContent]]
"""Partials whose content is in memory (from `encode_known`), so that they need not be decoded."""

KNOWN_ROWS_MAX = 1 << 13
"""Maximum number of rows of a table whose content is kept for the next reader, because larger ones cost more
memory."""

KNOWN_BYTES_MAX = 4 << 20
"""Maximum number of bytes of such a table, as sorted blocks."""

Encode: TypeAlias = Callable[[Mapping[str, Content], int], list[bytes]]
"""Signature of `encode_parts`; an agent uses one that caches its results."""

Contents: TypeAlias = Content | Rows | pa.Table
"""A table's content: of a window, rows, or PAO columns from `decode_partial`."""


_IDLE: list[Squeezer] = []
"""Idle squeezers: at most as many as threads that ever encoded at once."""


def encode_partial(tables: Mapping[str, Contents]) -> bytes:
    """Encode named tables of PAO columns, compressed and with checksums; b"" if they have no rows."""
    return encode_parts(tables, 1)[0]


def encode_parts(
    tables: Mapping[str, Contents], partitions: int, bytes_max: int | None = None
) -> list[bytes]:
    """As `encode_partial`, split by a hash of the group keys during the encoding; a part without rows is b"".

    The group keys are the keys that all tables have; a table with more keys (for a distinct count) follows
    its group. Raises PartialTooLarge if a part exceeds `bytes_max` or a receiver's limit.
    """
    return _encode({name: _content(table) for name, table in tables.items()}, partitions, bytes_max)


def encode_known(
    tables: Mapping[str, Content], bytes_max: int | None = None
) -> tuple[bytes, Mapping[str, SortedContent]]:
    """As `encode_partial`, and return the encoded content for `Known`; no tables if it is large.

    Raises PartialTooLarge if the partial exceeds `bytes_max` or a receiver's limit.
    """
    known: dict[str, SortedContent] = {}
    for name, content in tables.items():
        if content.rows_max > KNOWN_ROWS_MAX or (small := sorted_within(content, KNOWN_BYTES_MAX)) is None:
            return _encode(tables, 1, bytes_max)[0], {}
        known[name] = small
    return _encode(known, 1, bytes_max)[0], known


def decode_partial(data: bytes, bytes_max: int = PARTIAL_BYTES_MAX) -> dict[str, pa.Table]:
    """Return the tables of a partial.

    Raises:
        ProtocolError: the bytes are no partial.
        PartialTooLarge: its rows need more than `bytes_max` bytes of memory; none of them is read then.
    """
    contents = open_partial(data)
    if (size := sum(each.unpacked_bytes for each in contents.values())) > bytes_max:
        raise PartialTooLarge(f"a partial result of {size} bytes; at most {bytes_max} are taken here")
    return {name: to_table(all_rows(content)) for name, content in contents.items()}


def merge_partials(parts: Sequence[bytes]) -> bytes:
    """Merge several partials by key; a single one is returned unchanged. See `merge_known`."""
    return merge_known(parts, {})[0]


def merge_known(parts: Sequence[bytes], known: Known) -> tuple[bytes, Mapping[str, SortedContent]]:
    """As `merge_partials`, and return the encoded content as `encode_known`; known partials are not decoded.

    Raises:
        ProtocolError: A part is damaged, or the parts have different plans.
        TypeConflict: A column has types without a common one.
        PartialTooLarge: The result exceeds a receiver's limit.

    Cost: each block is decompressed and checked once; a k-way merge of sorted runs; an encoding of the
    result.
    """
    present = [part for part in parts if part]
    if len(present) <= 1:
        return (present[0], known.get(present[0], {})) if present else (b"", {})
    return encode_known(_merged(present, known))


def split_partial(data: bytes, parts: int) -> list[bytes]:
    if parts < 1:
        raise ValueError("a partial splits into at least one part")
    if parts == 1 or not data:
        return [data] + [b""] * (parts - 1)
    return _encode(open_partial(data), parts)


def finish(tables: Mapping[str, Contents]) -> dict[str, pa.Table]:
    """Convert PAO columns to finalised columns: keys, then one column per aggregate."""
    return {name: finished(_content(table)) for name, table in tables.items()}


def finish_blocks(tables: Mapping[str, Contents]) -> dict[str, FinishedBlocks]:
    return {name: FinishedBlocks(_content(table)) for name, table in tables.items()}


def finish_parts(parts: Sequence[bytes], known: Known | None = None) -> dict[str, FinishedBlocks]:
    """Return the finalised columns of all parts together, block by block, without encoding the merge.

    Raises as `merge_known`, also while blocks are read.
    """
    return finish_blocks(merged_parts(parts, known or {}))


def merged_parts(parts: Sequence[bytes], known: Known) -> dict[str, Content]:
    """Return the tables of all parts together, each merged when it is read. Raises as `finish_parts`."""
    return _merged([part for part in parts if part], known)


def subtract(whole: Mapping[str, pa.Table], part: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return `whole` without the records of `part`, which it contains (inverse reduce); see `subtract_rows`.

    Paper: ELF 2.2: "it can simply perform one single operation PAO15 - PAO5".
    """
    out = {}
    for name, table in whole.items():
        left = from_table(table)
        out[name] = to_table(subtract_rows(left, from_table(part[name]))) if name in part else table
    return out


def _content(table: Contents) -> Content:
    if isinstance(table, pa.Table):
        table = from_table(table)
    return RowsContent(table) if isinstance(table, Rows) else table


def _encode(tables: Mapping[str, Content], partitions: int, bytes_max: int | None = None) -> list[bytes]:
    if partitions < 1:
        raise ValueError("a partial splits into at least one part")
    # Making a squeezer costs as much as encoding a small partial, so they are reused, by one thread at a
    # time.
    try:
        squeezer = _IDLE.pop()
    except IndexError:
        squeezer = Squeezer()
    try:
        return _written(tables, [PartialWriter(squeezer, bytes_max) for _ in range(partitions)])
    finally:
        _IDLE.append(squeezer)


def _written(tables: Mapping[str, Content], writers: Sequence[PartialWriter]) -> list[bytes]:
    partitions = len(writers)
    layouts = [content.layout for content in tables.values()]
    shared = (
        [key for key in layouts[0].keys if all(key in layout.keys for layout in layouts)] if layouts else []
    )
    for name, content in tables.items():
        stream = _blocks(content, partitions)
        for writer in writers:
            writer.begin_table()
        for block in stream:
            if partitions == 1:
                writers[0].add_block(block)
                continue
            for writer, piece in zip(writers, split_sorted(block, shared, partitions), strict=True):
                if piece.count:
                    # All groups may belong to one part, so a piece may be as large as the block.
                    for small in cut_block(piece, BLOCK_BYTES_WANTED):
                        writer.add_block(small)
        for writer in writers:
            writer.end_table(name, content)
    return [writer.finish() for writer in writers]


def _blocks(content: Content, partitions: int) -> Iterable[SortedRows]:
    if isinstance(content, SortedContent) and (small := content.small_block) is not None:
        return (small,)
    return merge_streams([stream_of(content, content.form, content.types)], partitions)


def _merged(parts: Sequence[bytes], known: Known) -> dict[str, Content]:
    same: dict[str, list[WireContent | SortedContent]] = {}
    for part in parts:
        for name, content in (known.get(part) or open_partial(part)).items():
            same.setdefault(name, []).append(content)
    for name, contents in same.items():
        counted = {content.counted for content in contents if content.counted}
        if len({content.layout for content in contents}) > 1 or len(counted) > 1:
            raise ProtocolError(f"partial aggregates of table {name!r} come from different plans")
    return {name: _together(contents) for name, contents in same.items()}


def _together(contents: Sequence[WireContent | SortedContent]) -> Content:
    if len(contents) == 1 and isinstance(contents[0], SortedContent):
        return contents[0]
    return MergedContent(contents)

"""Merging of streams of sorted blocks, one hash prefix at a time.

A stream has the rows of one table as blocks of disjoint prefixes, ascending. If one stream has finer
prefixes, the block of the other is partitioned accordingly. The blocks of the resulting stream are neither
too large for memory nor too small, and each key occurs once. At most one block of each stream is in memory,
with its pieces.

Paper: ELF 2.2, 2.3 (PAOs "roll up" along the tree).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted, partition_sorted

STEP_BITS = 4
"""Bits by which a prefix is refined: 16 ways."""

CUT_BITS_MAX = 48
"""Maximum number of bits of a prefix; keys that agree in 48 bits of their hash were chosen to collide, and
stay together."""

BLOCK_BYTES_WANTED = 4 << 20
"""Bytes, with decoded keys, above which a block is split; a merge holds one block of each source."""

JOINED_ROWS_MAX = 1 << 13
"""Rows up to which adjacent blocks are joined, because a block has a fixed cost, in memory and on the
wire."""


PIECES_MAX = 16
"""Maximum factor by which a block that will be split may be larger, because it is in memory as a whole."""


class SortedBlocks(Protocol):
    """Blocks of one table in the order of their prefixes."""

    def peek(self) -> tuple[int, int] | None:
        """Return (bits, prefix) of the next block; None at the end."""
        ...

    def take(self) -> SortedRows: ...


class BlockStream:
    """Stream of blocks that are made one by one."""

    def __init__(self, blocks: Iterable[SortedRows]) -> None:
        self._blocks = iter(blocks)
        self._next: SortedRows | None = None

    def peek(self) -> tuple[int, int] | None:
        if self._next is None:
            self._next = next(self._blocks, None)
        return None if self._next is None else (self._next.bits, self._next.prefix)

    def take(self) -> SortedRows:
        if self.peek() is None:
            raise ValueError("a stream of blocks has ended")
        block, self._next = self._next, None
        assert block is not None
        return block


def merge_streams(streams: Sequence[SortedBlocks], pieces: int = 1) -> Iterator[SortedRows]:
    """Merge several streams of one layout, form and types. Cost: a k-way merge per prefix.

    If each block will be split into `pieces`, blocks are larger by this factor, within limits.
    """
    pieces = min(pieces, PIECES_MAX)
    return _Walk(JOINED_ROWS_MAX * pieces, BLOCK_BYTES_WANTED * pieces).over(0, 0, [], streams)


class _Walk(Struct, frozen=True):
    """Merge of streams, with the target sizes of blocks."""

    joined_rows_max: int
    bytes_wanted: int

    def over(
        self, bits: int, prefix: int, held: list[SortedRows], streams: Sequence[SortedBlocks]
    ) -> Iterator[SortedRows]:
        finer = []
        for stream in streams:
            head = stream.peek()
            if head is None or head[0] < bits or head[1] >> (head[0] - bits) != prefix:
                continue
            if head[0] == bits:
                held.append(stream.take())  # the whole block, because this stream has no finer prefix here
            else:
                finer.append(stream)
        if finer:
            return self._joined(bits, prefix, self._children(bits, prefix, held, finer))
        if not held:
            return iter(())
        rows = _merged(held)
        held.clear()  # the caller keeps the list until its last child is finished
        return cut_block(rows, self.bytes_wanted)

    def _children(
        self, bits: int, prefix: int, held: list[SortedRows], finer: Sequence[SortedBlocks]
    ) -> Iterator[SortedRows]:
        pieces: list[list[SortedRows]] = [[] for _ in range(1 << STEP_BITS)]
        while held:
            for piece in _partitioned(held.pop()):
                pieces[piece.prefix & ((1 << STEP_BITS) - 1)].append(piece)
        for child, own in enumerate(pieces):
            yield from self.over(bits + STEP_BITS, prefix << STEP_BITS | child, own, finer)

    def _joined(self, bits: int, prefix: int, blocks: Iterator[SortedRows]) -> Iterator[SortedRows]:
        waiting: list[SortedRows] = []
        rows = size = 0
        for block in blocks:
            waiting.append(block)
            rows += block.count
            size += _unfolded_bytes(block)
            if rows > self.joined_rows_max or size > self.bytes_wanted:
                while waiting:
                    yield waiting.pop(0)
                yield from blocks
                return
        if waiting:
            yield _merged([replace(block, bits=bits, prefix=prefix) for block in waiting])


def cut_block(rows: SortedRows, bytes_wanted: int) -> Iterator[SortedRows]:
    if _unfolded_bytes(rows) <= bytes_wanted or rows.bits >= CUT_BITS_MAX or rows.count == 1:
        yield rows
        return
    for piece in _partitioned(rows):
        yield from cut_block(piece, bytes_wanted)


def _unfolded_bytes(rows: SortedRows) -> int:
    """Return the size with decoded keys, which a reader that does not trust the keys needs."""
    return rows.nbytes - rows.run.nbytes + rows.run.key_bytes


def _merged(blocks: list[SortedRows]) -> SortedRows:
    return merge_sorted(blocks) if len(blocks) > 1 else blocks[0]


def _partitioned(rows: SortedRows) -> list[SortedRows]:
    return [piece for piece in partition_sorted(rows, STEP_BITS) if piece.count]

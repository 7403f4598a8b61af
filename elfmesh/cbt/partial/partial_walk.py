"""Merging streams of sorted blocks, one hash prefix of each at a time: the finer cut wins.

A stream is the rows of one table as blocks of disjoint prefixes, ascending. Where one stream is cut finer,
the other's block is partitioned to meet it. The result is a stream whose blocks are neither too large to hold
nor too small, and each key comes out once. At most one block of each stream is held, with its pieces.

Paper: ELF 2.2, 2.3 (PAOs "roll up" along the tree).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from elfmesh.cbt.sorted_rows import SortedRows, merge_sorted, partition_sorted

STEP_BITS = 4
"""A prefix is cut into 16 finer ones."""

CUT_BITS_MAX = 48
"""The finest cut made here: keys that agree in 48 bits of their hash were chosen to, and stay together."""

BLOCK_BYTES_WANTED = 4 << 20
"""Size over which a block is cut, its keys unfolded: what a merge holds of each of its sources."""

JOINED_ROWS_MAX = 1 << 13
"""Neighbouring blocks are joined up to this many rows: a block has a fixed cost, here and on the wire."""


PIECES_MAX = 16
"""How many times larger a block that will be split may be: it is in memory whole."""


class Stream(Protocol):
    """Blocks of one table in the order of their prefixes."""

    def peek(self) -> tuple[int, int] | None:
        """(bits, prefix) of the next block; None at the end."""
        ...

    def take(self) -> SortedRows: ...


class BlockStream:
    """A stream of blocks that are made one by one."""

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


def merge_streams(streams: Sequence[Stream], pieces: int = 1) -> Iterator[SortedRows]:
    """One stream of several of one layout, form and types. Cost: a k-way merge per prefix.

    Each block will be split into `pieces`; blocks are made as much larger, within limits.
    """
    pieces = min(pieces, PIECES_MAX)
    return _Walk(JOINED_ROWS_MAX * pieces, BLOCK_BYTES_WANTED * pieces).over(0, 0, [], streams)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk, with the sizes of blocks it aims at."""

    joined_rows_max: int
    bytes_wanted: int

    def over(
        self, bits: int, prefix: int, held: list[SortedRows], streams: Sequence[Stream]
    ) -> Iterator[SortedRows]:
        finer = []
        for stream in streams:
            head = stream.peek()
            if head is None or head[0] < bits or head[1] >> (head[0] - bits) != prefix:
                continue
            if head[0] == bits:
                held.append(stream.take())  # the whole of it: this stream has nothing finer here
            else:
                finer.append(stream)
        if finer:
            return self._joined(bits, prefix, self._children(bits, prefix, held, finer))
        if not held:
            return iter(())
        rows = _merged(held)
        held.clear()  # the caller keeps the list until its last child is done
        return cut_block(rows, self.bytes_wanted)

    def _children(
        self, bits: int, prefix: int, held: list[SortedRows], finer: Sequence[Stream]
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
    """Size with whole keys, which a reader who does not trust them has to unfold."""
    return rows.nbytes - rows.run.nbytes + rows.run.key_bytes


def _merged(blocks: list[SortedRows]) -> SortedRows:
    return merge_sorted(blocks) if len(blocks) > 1 else blocks[0]


def _partitioned(rows: SortedRows) -> list[SortedRows]:
    return [piece for piece in partition_sorted(rows, STEP_BITS) if piece.count]

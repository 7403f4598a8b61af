"""Members of the tree below the root's buffer, by prefixes of the placement hash, with compressed buffers.

Rows that are pushed to a member are kept as compressed runs. Above a threshold they are merged and pushed
down to the children, or merged into the base of a leaf, which has each key once. A full leaf splits by the
next bits of the hash: 256 ways at the top, 16 below; keys that agree in PLACE_BITS_MAX bits stay in one leaf.
An error of a store leaves every row in place.

Paper: ELF 2.2 ("its in-memory design uses an (a, b)-tree with each internal node augmented by a memory
buffer"). Deviation: a trie over hash bits instead of an (a,b)-tree. Hashes are evenly distributed, so it is
balanced without rotations, and the blocks of two trees have compatible prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from elfmesh.cbt import kernel
from elfmesh.cbt.budget import BlobStore
from elfmesh.cbt.codec.codec import Packed, pack, pack_parts, unpack
from elfmesh.cbt.codec.joint import merge_packed
from elfmesh.cbt.limits import PLACE_BITS_MAX, STEP_BITS, TreeLimits
from elfmesh.cbt.sorted_rows import SortedRows, partition_sorted
from elfmesh.cbt.tree.buffer import CompressedBuffer, Press

_NODE_BYTES = 300

_GIVE_BACK_ROWS_MIN = 1 << 18
_GIVE_BACK_SHIFT = 5
"""Free memory is returned to the system when 2**-5 of the rows have been rewritten. Replaced buffers of other
sizes fragment the heap, by about 20 MB after a push down of a large tree; returning it costs about 5 % of the
time."""

_SCATTER = 0x9E3779B1
"""2**32 divided by the golden ratio, whose multiples are evenly distributed."""

SPILLED_RUN_BYTES_MIN = 1 << 12
"""Minimum size of a spilled run; smaller runs are joined first, because a blob has a fixed cost, in memory
and on disk."""


class Shared:
    """State that the members of one tree share: limits, memory of all buffers, and their PAO rows."""

    def __init__(self, limits: TreeLimits) -> None:
        self.limits = limits
        self.nbytes = 0
        self.rows = 0
        self._written = 0
        self._press: Press | None = None

    @property
    def press(self) -> Press:
        """Return the press, which is made at its first use, because most trees never outgrow their root."""
        if self._press is None:
            self._press = Press()
        return self._press

    def rest(self) -> None:
        """Free what is only needed during a push down, and occasionally return fragmented memory."""
        self._press = None
        if self._written > max(_GIVE_BACK_ROWS_MIN, self.rows >> _GIVE_BACK_SHIFT):
            self._written = 0
            kernel.active.give_back()

    def hold(self, buffer: CompressedBuffer) -> CompressedBuffer:
        self.nbytes += buffer.nbytes
        self.rows += buffer.rows
        self._written += buffer.rows
        return buffer

    def forget(self, buffer: CompressedBuffer) -> None:
        self.nbytes -= buffer.nbytes
        self.rows -= buffer.rows

    def spill(self, buffer: CompressedBuffer, store: BlobStore) -> None:
        before = buffer.nbytes
        try:
            buffer.spill(store)
        finally:
            self.nbytes += buffer.nbytes - before


class BufferNode:
    """Member of the tree; a leaf while `children` is empty.

    Its keys share the `bits` bits `prefix` of the placement hash. `runs` are not yet merged or pushed down.
    """

    __slots__ = ("_pending_bytes", "_pending_rows", "_shared", "base", "bits", "children", "prefix", "runs")

    def __init__(self, shared: Shared, bits: int = 0, prefix: int = 0) -> None:
        self._shared = shared
        self.bits = bits
        self.prefix = prefix
        self.children: list[BufferNode] = []
        self.base: CompressedBuffer | None = None
        self.runs: list[CompressedBuffer] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        shared.nbytes += _NODE_BYTES

    @property
    def depth(self) -> int:
        return 1 + max((child.depth for child in self.children), default=0)

    @property
    def child_bits(self) -> int:
        """Return the bits by which its children differ, if it has any or would split."""
        return STEP_BITS if self.bits else self._shared.limits.root_bits

    def leaves(self) -> Iterator[BufferNode]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def members(self) -> Iterator[BufferNode]:
        yield self
        for child in self.children:
            yield from child.members()

    def append(self, rows: SortedRows) -> None:
        """Add rows of this prefix to the buffer without further effects.

        No store is used, so it cannot fail.
        """
        if (rows.bits, rows.prefix) != (self.bits, self.prefix):
            rows = replace(rows, bits=self.bits, prefix=self.prefix)
        self._append(pack(rows))

    def take(self, packed: Packed) -> None:
        """Add rows of this prefix and process the effects; after a StorageError the rows are in the tree."""
        self._append(packed)
        self.settle()

    def _append(self, packed: Packed) -> None:
        self._hang(CompressedBuffer(packed, self._shared.press))

    def _hang(self, buffer: CompressedBuffer) -> None:
        run = self._shared.hold(buffer)
        self.runs.append(run)
        self._pending_rows += run.rows
        self._pending_bytes += run.raw_bytes

    def insert(self, rows: SortedRows) -> None:
        """Add rows of this or a finer prefix to their members.

        After a StorageError the rows are in the tree.
        """
        if not rows.count:
            return
        below = self.bits + self.child_bits
        if not self.children:
            self.append(rows)
            self.settle()
        elif rows.bits >= below:
            self.children[self._place(rows.bits, rows.prefix)].insert(rows)
        else:
            self.push_parts(_split_packed(rows, below - rows.bits))

    def push_parts(self, parts: Iterable[Packed]) -> None:
        self.hang(self.prepare(parts))

    def prepare(self, parts: Iterable[Packed]) -> list[tuple[BufferNode, CompressedBuffer]]:
        """Compress parts with the children's prefixes, and return them with their receivers.

        The tree does not change.
        """
        press = self._shared.press
        return [
            (
                self.children[self._place(part.header.bits, part.header.prefix)],
                CompressedBuffer(part, press),
            )
            for part in parts
        ]

    def hang(self, prepared: Sequence[tuple[BufferNode, CompressedBuffer]]) -> None:
        """Add the prepared parts to the children; the effects are processed after all of them were added."""
        for child, buffer in prepared:
            child._hang(buffer)
        for child, _ in prepared:
            child.settle()

    def settle(self) -> None:
        """Empty the buffer if it is over its threshold: into the children, or into the base of a leaf."""
        limits = self._shared.limits
        if not self.runs:
            return
        if not self._is_over():
            if len(self.runs) > limits.runs_max:
                self._join(self.runs)
        elif self.children:
            self._push_down()
        else:
            self._merge()

    def split(self) -> None:
        """Split a leaf, whatever it contains; a StorageError changes nothing."""
        buffers = self._buffers()
        self._split(_unpacked(self._merged(buffers)) if buffers else None)

    def spill(self, store: BlobStore) -> None:
        """Spill all own buffers, large ones first; runs that are too small are joined."""
        small = [run for run in self.runs if not run.is_spilled and run.nbytes < SPILLED_RUN_BYTES_MIN]
        if len(small) > 1:
            self._join(small)
        for buffer in self._buffers():
            self._shared.spill(buffer, store)

    def _buffers(self) -> list[CompressedBuffer]:
        return self.runs if self.base is None else [self.base, *self.runs]

    def _place(self, bits: int, prefix: int) -> int:
        return (prefix >> (bits - self.bits - self.child_bits)) & ((1 << self.child_bits) - 1)

    def _is_over(self) -> bool:
        limits = self._shared.limits
        if self.children:
            return (
                self._pending_rows > limits.buffer_rows_max or self._pending_bytes > limits.buffer_bytes_max
            )
        base = self.base
        if base is None:
            rows, raw_bytes = 0, 0
        else:
            # Hashes are evenly distributed, so leaves fill alike. Each leaf has a different share, so that
            # they do not all reach their limit at once.
            # not all have the most pending at once.
            # The share is relative to the base in rows and in bytes, so that a leaf that cannot split is not
            # merged for every run.
            # run that comes.
            share = limits.spilled_share if base.is_spilled else limits.pending_share
            share *= 0.5 + (self.prefix * _SCATTER % (1 << 32)) / (1 << 32)
            rows, raw_bytes = int(share * base.rows), int(share * base.raw_bytes)
        return self._pending_rows > max(limits.pending_rows_min, rows) or self._pending_bytes > max(
            limits.leaf_bytes_max, raw_bytes
        )

    def _merged(self, buffers: Sequence[CompressedBuffer]) -> Packed:
        press = self._shared.press
        return merge_packed([buffer.open(press) for buffer in buffers])

    def _drop(self, runs: Sequence[CompressedBuffer]) -> None:
        for run in runs:
            self._shared.forget(run)
            self._pending_rows -= run.rows
            self._pending_bytes -= run.raw_bytes
        self.runs = [run for run in self.runs if run not in runs]

    def _join(self, runs: Sequence[CompressedBuffer]) -> None:
        packed = self._merged(runs)
        self._drop(runs)
        self._append(packed)

    def _push_down(self) -> None:
        parts = _split_packed(_unpacked(self._merged(self.runs)), self.child_bits)
        self._drop(self.runs)
        self.push_parts(parts)

    def _merge(self) -> None:
        shared, base = self._shared, self.base
        packed = self._merged(self._buffers())
        limits, rows = shared.limits, packed.header.rows
        raw_bytes = sum(len(chunk) for chunk in packed.chunks)
        full = rows > 2 * limits.leaf_rows_max or (raw_bytes > 2 * limits.leaf_bytes_max and rows > 1)
        if full and self.bits < PLACE_BITS_MAX:
            self._split(_unpacked(packed))
            return
        # There is no new key, so the compressed keys, which are most of the bytes, are reused.
        twin = base if base is not None and base.rows == rows else None
        merged = CompressedBuffer(packed, shared.press, twin=twin)
        self._drop(self.runs)
        if base is not None:
            shared.forget(base)
        self.base = shared.hold(merged)

    def _split(self, rows: SortedRows | None) -> None:
        bits, step = self.bits + self.child_bits, self.child_bits
        parts = [] if rows is None else partition_sorted(rows, step)
        self._drop(self.runs)
        if self.base is not None:
            self._shared.forget(self.base)
            self.base = None
        self.children = [
            BufferNode(self._shared, bits, (self.prefix << step) + part) for part in range(1 << step)
        ]
        for child, part in zip(self.children, parts, strict=False):
            if part.count:
                child._take_base(part)

    def _take_base(self, rows: SortedRows) -> None:
        limits = self._shared.limits
        if rows.count > 2 * limits.leaf_rows_max and self.bits < PLACE_BITS_MAX:
            self._split(rows)
        else:
            self.base = self._shared.hold(CompressedBuffer(pack(rows), self._shared.press))


def _unpacked(packed: Packed) -> SortedRows:
    return unpack(packed.header, packed.chunks, trusted=True)


def _split_packed(rows: SortedRows, bits: int) -> list[Packed]:
    runs, order = kernel.active.partition_run(rows.run, rows.bits, bits)
    cuts = np.cumsum([0, *(run.rows for run in runs)])
    return pack_parts(
        rows.layout, rows.form, runs, rows.states, order, cuts, rows.bits + bits, rows.prefix << bits
    )

"""The tree below the root buffer: an (a,b)-tree over hash ranges, each member with a compressed buffer.

A `BufferNode` owns the keys whose hash lies in its range. Rows pushed to it are kept as compressed runs; only
when they pass a threshold are they unpacked, combined, sorted by hash and pushed down to the children, or
merged into the base of a leaf. A full leaf splits at hashes, and the new leaves are added to its parent,
which splits in turn.

Owns: the structure. Refuses to know: where rows come from, what an aggregate is.

Invariants:
    - All rows of one key lie on one path from the root to a leaf: ranges of siblings are disjoint and cover
      all hashes.
    - While a parent pushes down, its own buffer is empty, so splitting its children list loses nothing.
    - A leaf's base holds each of its keys once. Keys of equal hash stay in one leaf, however large that makes
      it.

Paper: ELF 2.2 ("its in-memory design uses an (a, b)-tree with each internal node augmented by a memory
buffer").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from elfmesh.cbt.buffer import CompressedBuffer
from elfmesh.cbt.kernel import grouping, placement
from elfmesh.cbt.rows import Rows, Types, combine

_NODE_BYTES = 200


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Sizes of a tree's parts; all are thresholds, passed by at most one push before they act.

    Attributes:
        buffer_rows_max: rows buffered at an inner member before it pushes down: large enough that each child
            gets a run worth compressing.
        buffer_bytes_max: the same in uncompressed bytes: all of it is unpacked at once, and 2 GiB of keys
            would not fit one Arrow column.
        leaf_rows_max: keys of a leaf before it splits: one leaf is unpacked at a time, so this bounds the
            working set.
        leaf_bytes_max: the same in uncompressed bytes, for long keys.
        fanout_max: children of one member (b); after a split each half has at least b / 2 (a).
        pending_share: a leaf merges when pending rows exceed this share of its base, so each row is merged
            a logarithmic number of times.
        pending_rows_min: but not before this many, because unpacking has a fixed cost.
        seed: of the placement hash; give each process its own where keys may be chosen to collide.
    """

    buffer_rows_max: int = 1 << 18
    buffer_bytes_max: int = 64 << 20
    leaf_rows_max: int = 1 << 16
    leaf_bytes_max: int = 16 << 20
    fanout_max: int = 64
    pending_share: float = 0.5
    pending_rows_min: int = 1 << 13
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.buffer_rows_max, self.buffer_bytes_max, self.leaf_rows_max, self.leaf_bytes_max) < 1:
            raise ValueError("limits of a tree must be positive")
        if self.fanout_max < 2 or self.pending_share <= 0 or self.pending_rows_min < 1:
            raise ValueError("a tree needs a fan-out of 2, and a positive share and number of pending rows")


class BufferNode:
    """One member of the tree: a leaf while `children` is empty.

    Attributes:
        low: smallest hash of its range; the range ends where the next sibling's begins.
        children: inner member: in order of their ranges.
        base: leaf: merged rows, each key once.
        runs: buffered rows, not yet merged or pushed down.
    """

    __slots__ = ("_limits", "_pending_bytes", "_pending_rows", "base", "children", "low", "runs")

    def __init__(self, low: int, limits: TreeLimits, children: list[BufferNode] | None = None) -> None:
        self.low = low
        self.children = children or []
        self.base: CompressedBuffer | None = None
        self.runs: list[CompressedBuffer] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._limits = limits

    @property
    def depth(self) -> int:
        """Levels below and including this one; every leaf is equally deep."""
        return 1 + (self.children[0].depth if self.children else 0)

    @property
    def rows(self) -> int:
        """PAO rows below, a key counted once per run that has it."""
        own = self._pending_rows + (self.base.rows if self.base else 0)
        return own + sum(child.rows for child in self.children)

    @property
    def nbytes(self) -> int:
        """Memory of everything below."""
        own = sum(run.nbytes for run in self.runs) + (self.base.nbytes if self.base else 0)
        return own + _NODE_BYTES + sum(child.nbytes for child in self.children)

    def push(self, rows: Rows, types: Types) -> list[BufferNode]:
        """Take rows of this range into the buffer; push down or merge if it is over its threshold.

        Returns:
            New right siblings for the parent, if this member split.
        """
        if rows.count:
            run = CompressedBuffer(rows)
            self.runs.append(run)
            self._pending_rows += run.rows
            self._pending_bytes += run.raw_bytes
        return self.settle(types) if self._is_over() else []

    def settle(self, types: Types, *, all_down: bool = False) -> list[BufferNode]:
        """Empty the buffer: into the children, or into the base of a leaf.

        Args:
            types: the tree's types; older runs may have narrower ones.
            all_down: settle everything below as well.

        Returns:
            New right siblings for the parent, if this member split.
        """
        if not self.children:
            return self._merge(types) if self.runs else []
        parts = self._push_down(types) if self.runs else [None] * len(self.children)
        grown: list[BufferNode] = []
        for child, part in zip(self.children, parts, strict=True):
            grown.append(child)
            if part is not None:
                grown += child.push(part, types)
        self.children = grown
        if all_down:
            self.children = [
                member for child in grown for member in (child, *child.settle(types, all_down=True))
            ]
        return self._split_inner()

    def leaves(self) -> Iterator[BufferNode]:
        """Leaves in order of their ranges."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def _is_over(self) -> bool:
        """Whether the buffer has passed its threshold."""
        limits = self._limits
        if self.children:
            return (
                self._pending_rows > limits.buffer_rows_max or self._pending_bytes > limits.buffer_bytes_max
            )
        base = self.base.rows if self.base else 0
        rows_max = max(limits.pending_rows_min, int(limits.pending_share * base))
        return self._pending_rows > rows_max or self._pending_bytes > limits.leaf_bytes_max

    def _drain(self, types: Types) -> Rows:
        rows = combine([run.unpack() for run in self.runs], types)
        self.runs, self._pending_rows, self._pending_bytes = [], 0, 0
        return rows

    def _push_down(self, types: Types) -> list[Rows | None]:
        """Sort the buffered rows by hash and cut them into the children's ranges."""
        rows = self._drain(types)
        hashes = hash_keys(rows, self._limits.seed)
        bounds = np.array([child.low for child in self.children[1:]], np.uint64)
        order, cuts = grouping.partition(hashes, bounds)
        rows = rows.take(order)
        places = cuts.tolist()
        return [rows.slice(start, stop) if stop > start else None for start, stop in pairwise(places)]

    def _merge(self, types: Types) -> list[BufferNode]:
        """Merge buffered rows into the leaf's base, and split it if it is full."""
        if self.base is not None:
            self.runs.append(self.base)
        rows = self._drain(types)
        self.base = CompressedBuffer(rows)
        pieces = max(
            -(-rows.count // self._limits.leaf_rows_max),
            -(-self.base.raw_bytes // self._limits.leaf_bytes_max),
        )
        return self._split_leaf(rows, pieces) if pieces > 1 else []

    def _split_leaf(self, rows: Rows, pieces: int) -> list[BufferNode]:
        """Split into twice as many leaves as would be full, for room; equal hashes stay together."""
        hashes = hash_keys(rows, self._limits.seed)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        wanted = np.linspace(0, rows.count, min(2 * pieces, rows.count) + 1).astype(np.intp)[1:-1]
        lows = np.unique(hashes[wanted])
        lows = lows[lows > hashes[0]]
        if len(lows) == 0:
            return []  # one hash for all: only a larger leaf keeps them exact
        rows = rows.take(order)
        cuts = [0, *np.searchsorted(hashes, lows, side="left").tolist(), rows.count]
        self.base = CompressedBuffer(rows.slice(cuts[0], cuts[1]))
        siblings = []
        for low, start, stop in zip(lows.tolist(), cuts[1:-1], cuts[2:], strict=True):
            leaf = BufferNode(low, self._limits)
            leaf.base = CompressedBuffer(rows.slice(start, stop))
            siblings.append(leaf)
        return siblings

    def _split_inner(self) -> list[BufferNode]:
        """Cut an overfull children list into runs of at most b, none smaller than b / 2."""
        count, most = len(self.children), self._limits.fanout_max
        if count <= most:
            return []
        pieces = -(-count // most)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        groups = [self.children[start:stop] for start, stop in pairwise(cuts)]
        self.children = groups[0]
        return [BufferNode(group[0].low, self._limits, group) for group in groups[1:]]


def hash_keys(rows: Rows, seed: int) -> np.ndarray:
    """uint64 placement hashes of rows."""
    return placement.hash_rows(rows.keys, rows.count, seed)


def grow_root(root: BufferNode, siblings: list[BufferNode], limits: TreeLimits) -> BufferNode:
    """The new root over a root that split, however often. The only place where the tree gets deeper."""
    while siblings:
        root = BufferNode(root.low, limits, [root, *siblings])
        siblings = root._split_inner()
    return root

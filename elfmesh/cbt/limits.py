"""Sizes of the parts of a tree, each with its reason."""

from __future__ import annotations

from msgspec import Struct

STEP_BITS = 4
"""Bits of the placement hash by which a leaf splits: 16 ways."""

PLACE_BITS_MAX = 32
"""Maximum depth of the tree in bits of the placement hash; keys that agree in this many were chosen to
collide."""


class TreeLimits(Struct, frozen=True):
    """Sizes of the parts of a tree. All are thresholds, which one push may exceed before they take effect.

    Attributes:
        root_rows: keys of the root's buffer before it is pushed down, if few rows find their key there. About
            10 MB; with fewer rows the pushed runs would be too short.
        root_rows_max: size to which the root grows while many rows find their key. A root smaller than the
            hot set loses most of the speed; one larger than the machine's caches gains nothing.
        root_bytes_max: bytes of the root's buffer, for long keys and many aggregates.
        root_bits: bits of the placement hash by which the root splits: 256 ways.
        buffer_rows_max: rows in the buffer of an inner member before it pushes down; large enough that each
            child receives a run worth compressing.
        leaf_rows_max: keys of a leaf; at twice as many it splits. One leaf is unpacked at a time, so this
            bounds the working set.
        pending_share: a leaf merges when its pending rows exceed this share of its base (varied by half with
            its prefix), so each row is merged a logarithmic number of times.
        spilled_share: the same for a leaf whose base is in a store, where a merge costs a read and a write.
        pending_rows_min: least pending rows for a merge, because unpacking has a fixed cost.
        runs_max: pending runs of a member before they are merged, however short.
    """

    root_rows: int = 1 << 18
    root_rows_max: int = 1 << 20
    root_bytes_max: int = 64 << 20
    root_bits: int = 8
    buffer_rows_max: int = 1 << 15
    buffer_bytes_max: int = 8 << 20
    leaf_rows_max: int = 1 << 16
    leaf_bytes_max: int = 8 << 20
    pending_share: float = 0.85
    spilled_share: float = 1.0
    pending_rows_min: int = 1 << 13
    runs_max: int = 64

    def __post_init__(self) -> None:
        sizes = (
            self.root_rows,
            self.root_rows_max,
            self.root_bytes_max,
            self.buffer_rows_max,
            self.buffer_bytes_max,
            self.leaf_rows_max,
            self.leaf_bytes_max,
            self.pending_rows_min,
        )
        if min(sizes) < 1 or min(self.pending_share, self.spilled_share) <= 0 or self.runs_max < 2:
            raise ValueError("limits of a tree must be positive, and at least two runs pending")
        if self.root_bits not in (4, 8, 12, 16):
            raise ValueError("the root splits by 4, 8, 12 or 16 bits")

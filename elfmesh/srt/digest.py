"""What two peers tell each other about the trees they share, inside the overlay's heartbeats.

Owns the bytes: one fixed row per shared tree, so that both sides notice a relation the other does not
know of (a lost join, a dropped child) and multicasts that never came. Refuses to know what follows from
that.

Paper: ELF 2.3, 3. Deviation: heartbeats are per pair of peers and carry digests of all shared trees,
not per tree.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

from elfmesh.errors import ProtocolError

PREFIX_BYTES = 8
"""Of a tree's id: enough to tell apart the trees two peers share."""
CHILD, PARENT = 1, 2
UNKNOWN = -(2**63)
"""As a frontier: do not conclude anything."""
_ROW = struct.Struct(f">{PREFIX_BYTES}sBBHIQIQq")


class Row(msgspec.Struct, frozen=True, gc=False):
    """One shared tree, as the sender sees it.

    Attributes:
        prefix: of the tree's id.
        relation: CHILD = I am your child, PARENT = I am your parent.
        depth: hops below the root.
        load: children.
        size: subscribed agents in the subtree.
        era: of the newest multicast, 0 = none.
        seq: of the newest multicast.
        epoch: of the barrier.
        front: everything below was claimed and acknowledged, `UNKNOWN` if claims are under way or nothing is.
    """

    prefix: bytes
    relation: int
    depth: int
    load: int
    size: int
    era: int
    seq: int
    epoch: int
    front: int


def pack(rows: Iterable[Row]) -> bytes:
    """The bytes of a digest."""
    return b"".join(
        _ROW.pack(
            row.prefix,
            row.relation,
            min(row.depth, 0xFF),
            min(row.load, 0xFFFF),
            min(row.size, 0xFFFFFFFF),
            row.era,
            min(row.seq, 0xFFFFFFFF),
            row.epoch,
            row.front,
        )
        for row in rows
    )


def unpack(digest: bytes) -> list[Row]:
    """The rows of a digest.

    Raises:
        ProtocolError: not a whole number of rows, or an unknown relation.
    """
    if len(digest) % _ROW.size:
        raise ProtocolError(f"a digest of {len(digest)} bytes is not made of rows of {_ROW.size}")
    rows = [Row(*fields) for fields in _ROW.iter_unpack(digest)]
    if any(row.relation not in (CHILD, PARENT) for row in rows):
        raise ProtocolError("a digest names an unknown relation")
    return rows

"""Digests: the state of shared trees that two peers exchange in the overlay's heartbeats.

Owns the encoding: one fixed row per shared tree. By the rows, both sides detect a relation that the other
does not have (a lost join, a dropped child) and lost multicasts. Does not own the reactions.

Paper: ELF 2.3, 3. Deviation: heartbeats are per pair of peers and carry digests of all shared trees; in the
paper they are per tree.
"""

from __future__ import annotations

import struct

import msgspec

from elfmesh.errors import ProtocolError

PREFIX_BYTES = 8
"""Bytes of a tree's id in a row: enough to distinguish the trees that two peers share."""
CHILD, PARENT = 1, 2
UNKNOWN = -(2**63)
"""Frontier from which the receiver must not conclude anything."""
_ROW = struct.Struct(f">{PREFIX_BYTES}sBBHIQIQq")


class Row(msgspec.Struct, frozen=True, gc=False):
    """State of one shared tree at the sender.

    Attributes:
        prefix: first bytes of the tree's id.
        relation: CHILD = the sender is the receiver's child, PARENT = the sender is its parent.
        depth: hops below the root.
        load: number of children.
        size: subscribed agents in the subtree.
        era: era of the newest multicast, 0 = none.
        seq: number of the newest multicast.
        epoch: epoch of the barrier.
        front: everything below was claimed and acknowledged; `UNKNOWN` if claims are in progress or there is
            no front.
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


def pack(row: Row) -> bytes:
    return _ROW.pack(
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


def split(digest: bytes) -> dict[bytes, bytes]:
    """Return the rows of a digest by prefix, not decoded.

    Raises:
        ProtocolError: The bytes are not a whole number of rows.
    """
    size = _ROW.size
    if len(digest) % size:
        raise ProtocolError(f"a digest of {len(digest)} bytes is not made of rows of {size}")
    return {digest[at : at + PREFIX_BYTES]: digest[at : at + size] for at in range(0, len(digest), size)}


def unpack(row: bytes) -> Row:
    """Decode a row of a digest.

    Raises:
        ProtocolError: Its relation is unknown.
    """
    found = Row(*_ROW.unpack(row))
    if found.relation not in (CHILD, PARENT):
        raise ProtocolError("a digest names an unknown relation")
    return found

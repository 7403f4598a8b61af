"""theta: distinct values as the k least of their hashes, for unions, intersections and differences of sets.

The state has the k + 1 least distinct hashes of a group, so it depends only on the set of values. `finish`
returns a compact theta sketch of Apache DataSketches with the library's hashes: exact for up to k values,
then within 2 / sqrt(k) with 95 % confidence.

Owns the hashes of all groups. Does not compute estimates and set operations (`sketches`).

Paper: Dasgupta et al., "A framework for estimating stream expression cardinalities" (ICDT 2016).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import from_int64, to_int64, valid_mask
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.blobs import check_binary, unpack_values
from elfmesh.cbt.laws.hll import hashes_of
from elfmesh.cbt.laws.murmur import SEED_HASH
from elfmesh.cbt.laws.sets import ListAccumulator, check_parts

ENTRIES_DEFAULT, ENTRIES_MIN, ENTRIES_MAX = 4096, 16, 1 << 14
EVERYTHING = (1 << 63) - 1
"""Theta of a sketch that has dropped nothing."""
FAMILY, VERSION = 3, 3
FLAG_EMPTY, FLAGS = 4, 2 | 8 | 16
"""Flags: read only, compact, ordered."""


class Theta(Law):
    """Sketch of values of any type; at most 32 KiB per group for 4,096 entries.

    Args:
        entries: k, a power of two.
    """

    takes_narrower = True

    def __init__(self, entries: int = ENTRIES_DEFAULT) -> None:
        if not ENTRIES_MIN <= entries <= ENTRIES_MAX or entries & (entries - 1):
            raise ValueError(f"a theta keeps a power of two from {ENTRIES_MIN} to {ENTRIES_MAX} entries")
        self.entries = entries
        self.kind = "theta" if entries == ENTRIES_DEFAULT else f"theta:{entries}"

    def value_type(self, values: Values, name: str) -> pa.DataType:
        return one_column(values).type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with about 50 bytes per hash."""
        return ThetaAccumulator(self.kind, data_type, self.entries)

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Keep the state, because equal values of both types have equal hashes."""
        return State(state.kind, data_type, state.parts)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return sketches in Apache DataSketches' format, binary."""
        column, owners = unpack_values(state.parts["items"], pa.int64())
        hashes = to_int64(column)[0]
        cuts = np.searchsorted(owners, np.arange(rows + 1)).tolist()
        return pa.array([_finished(hashes[a:b], self.entries) for a, b in pairwise(cuts)], pa.binary())

    def check(self, state: State, rows: int) -> None:
        check_parts(state, {"items"})
        column, owners = unpack_values(check_binary(state.parts["items"], "a theta"), pa.int64())
        hashes = to_int64(column)[0]
        if (hashes <= 0).any() or ((hashes[1:] <= hashes[:-1]) & (owners[1:] == owners[:-1])).any():
            raise ValueError("the hashes of a theta do not ascend")
        if len(owners) and int(np.bincount(owners).max()) > self.entries + 1:
            raise ValueError(f"a {self.kind} has more hashes")


class ThetaAccumulator(Accumulator):
    """The least distinct hashes of each group."""

    def __init__(self, kind: str, data_type: pa.DataType, entries: int) -> None:
        self.type = data_type
        self._kind = kind
        self._hashes = ListAccumulator(kind, pa.int64(), entries + 1)

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        column = one_column(values)
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        if pa.types.is_null(column.type):
            return
        first, _, counted = hashes_of(column)
        hashes = (first >> np.uint64(1)).view(np.int64)
        ids = ids if counted is None else ids[counted]
        usable = hashes != 0  # the library ignores such values too
        self._hashes.add(from_int64(hashes[usable], None, pa.int64()), ids[usable], groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        self._hashes.merge(State(state.kind, pa.int64(), state.parts), ids, groups)

    def freeze(self, groups: int) -> State:
        """Return the states. Cost: a sort of all hashes."""
        return State(self._kind, self.type, self._hashes.freeze(groups).parts)

    def clear(self) -> None:
        self._hashes.clear()

    def promote(self, data_type: pa.DataType) -> None:
        """Keep the state, because equal values of both types have equal hashes."""
        self.type = data_type

    @property
    def nbytes(self) -> int:
        return self._hashes.nbytes


def _finished(hashes: np.ndarray, entries: int) -> bytes:
    if len(hashes) <= entries:
        return theta_bytes(hashes, EVERYTHING)
    return theta_bytes(hashes[:entries], int(hashes[entries]))


def theta_bytes(hashes: np.ndarray, theta: int) -> bytes:
    """Return a compact sketch of ascending int64 hashes, all below theta, in the library's format."""
    seed = SEED_HASH.to_bytes(2, "little")
    if theta == EVERYTHING and len(hashes) == 0:
        return bytes([1, VERSION, FAMILY, 0, 0, FLAGS | FLAG_EMPTY]) + seed
    words = 2 if theta == EVERYTHING else 3
    head = bytes([words, VERSION, FAMILY, 0, 0, FLAGS]) + seed + len(hashes).to_bytes(4, "little") + bytes(4)
    if words == 3:
        head += theta.to_bytes(8, "little")
    return head + hashes.astype("<i8").tobytes()

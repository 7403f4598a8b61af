"""The hot operations of the tree behind one seam: today the numpy twin, tomorrow a native module beside it.

The contract is `Kernel` below: a module with these six functions. A native module must give equal results for
`hash_rows` and `partition` bit for bit (agents must agree on them), and results equal up to the order of
groups for `group`. The rest of the room calls `kernel.active.<function>`, looked up at each call, so that a
test or a start-up check can put another module in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from elfmesh.cbt.kernel import numpy_twin


class Kernel(Protocol):
    """Hot operations over canonical columns (see `elfmesh.cbt.columns`) and plain int64 arrays."""

    def hash_rows(self, keys: Sequence[pa.Array], rows: int, seed: int) -> np.ndarray:
        """uint64[rows], well mixed in its top bits; equal keys hash alike on every machine, in every layout.

        An int64 and a float64 that compare equal hash alike, so promoting a column moves no key.
        """
        ...

    def group(self, keys: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, int, tuple[pa.Array, ...]]:
        """Group by key bytes: intp[rows] group numbers, how many groups, the unique key columns [groups]."""
        ...

    def add(self, ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
        """int64[groups]: sums of int64 values by group. The caller has made sure that nothing overflows."""
        ...

    def least(self, ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
        """int64[groups]: smallest value by group, the int64 maximum where a group has none."""
        ...

    def greatest(self, ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
        """int64[groups]: largest value by group, the int64 minimum where a group has none."""
        ...

    def partition(self, hashes: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sort by hash and cut at bounds.

        Args:
            hashes: uint64[rows].
            bounds: uint64[k], ascending: part j holds bounds[j-1] <= hash < bounds[j].

        Returns:
            intp[rows] order that sorts the hashes, and intp[k + 2] cuts of the ordered rows into k + 1 parts.
        """
        ...


active: Kernel = numpy_twin
"""The implementation in use."""

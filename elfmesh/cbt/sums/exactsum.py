"""Exact sums of a growing number of groups, updated in place: limbs as in `floatsum`, one column per limb.

Floats go into rows of adjacent limbs, so that one value touches one cache line; other values go into plain
columns. No limb leaves +-2**62. An upper bound grows with every addition; before it exceeds the limit, the
true magnitudes are computed, and limbs are carried if necessary. Both happen at most once in 2**20 additions.

Paper: ELF 2.2 (merging PAOs). See `floatsum` for the reason why sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import numpy as np

from elfmesh.cbt import kernel
from elfmesh.cbt.growing import Growing
from elfmesh.cbt.sums import floatsum
from elfmesh.cbt.sums.floatsum import BIAS, LIMB_BITS, LIMB_MIN, MANTISSA_BITS, Limbs, bound

_SAFE = 1 << 62
_NARROW = 1 << 40
"""Magnitude from which values are split over two limbs, so that 2**22 of them fit before a carry."""
_MASK = np.int64((1 << LIMB_BITS) - 1)
_SHIFT = np.int64(LIMB_BITS)
_FLOAT_ADDITIONS_MAX = 1 << 29
"""Maximum number of additions of floats before a carry: pieces of a float are below 2**32, so the sum stays
below 2**61."""
_FLOAT_REACH = 3
"""Maximum number of limbs that one float touches."""


class ExactSums:
    """Exact sums, one per group."""

    def __init__(self) -> None:
        self._columns: dict[int, Growing] = {}
        self._bounds: dict[int, int] = {}
        # int64[groups, 1 + limbs] for floats: the number of added values, then the limbs from _lowest up.
        self._block = Growing(width=2)
        self._counted: Growing | None = None  # counts of the block before it was folded
        self._lowest = 0
        self._limbs = 1
        self._additions = 0

    def add_ints(self, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
        """Add int64 values to int64 groups. Cost: one addition per value, and one pass for the magnitudes."""
        magnitude = bound(values)
        if _fits(magnitude, len(values)):
            self._add(0, values, magnitude * len(ids), ids, groups)
        else:
            more = len(ids) << LIMB_BITS
            self._add(0, values & _MASK, more, ids, groups)
            self._add(1, values >> _SHIFT, more, ids, groups)

    def add_decimals(self, words: np.ndarray, ids: np.ndarray, groups: int) -> None:
        """Add the unscaled values of decimals, int64 [n, 2] (low, high). Cost: one to four additions."""
        low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])
        if not (high != (low >> np.int64(63))).any():  # all fit in 64 bits
            self.add_ints(low, ids, groups)
            return
        pieces = (low & _MASK, (low >> _SHIFT) & _MASK, high & _MASK, high >> _SHIFT)
        for number, piece in enumerate(pieces):
            self._add(number, piece, len(ids) << LIMB_BITS, ids, groups)

    def add_floats(self, values: np.ndarray, ids: np.ndarray, groups: int) -> int:
        """Add float64 values. Returns how many were added: those before the first that is not finite.

        Cost: three additions in one row per value.
        """
        if self._additions + len(values) > _FLOAT_ADDITIONS_MAX:
            self._fold_block()
        done = 0
        while True:
            done += kernel.active.add_floats(
                ids[done:], values[done:], self._block.reach(groups), self._lowest
            )
            if done == len(values) or not isfinite(values[done]):
                break
            self._widen(values[done:])
        self._additions += done
        return done

    def floats_added(self, groups: int) -> np.ndarray:
        """Return int64[groups], a copy: how many times `add_floats` added to each of the first groups."""
        added = self._block.head(groups)[:, 0].copy() if self._additions else np.zeros(groups, np.int64)
        return added if self._counted is None else added + self._counted.head(groups)

    def merge(self, limbs: Mapping[int, np.ndarray], ids: np.ndarray, groups: int) -> None:
        # Maps of a merge ascend, so no group occurs twice, and limbs may be much larger without a carry.
        times = 1 if (ids[1:] > ids[:-1]).all() else len(ids)
        bounds = {number: bound(values) for number, values in limbs.items()}
        if any(magnitude * times > _SAFE >> 10 for magnitude in bounds.values()):
            limbs = floatsum.carry(limbs)
            bounds = {number: bound(values) for number, values in limbs.items()}
        for number, magnitude in bounds.items():
            self._add(number, limbs[number], magnitude * times, ids, groups)

    def limbs(self, groups: int) -> Limbs:
        """Return a copy of the sums of the first groups; only limbs that some of them need."""
        out = {number: column.head(groups).copy() for number, column in self._columns.items()}
        if self._additions:
            # In-place sums and merged sums may share a limb; each is within 2**62.
            for place, column in enumerate(self._block.head(groups).T[1:].copy()):
                number = self._lowest + place
                out[number] = out[number] + column if number in out else column
        return {number: out[number] for number in sorted(out) if out[number].any()}

    def clear(self) -> None:
        for column in self._columns.values():
            column.clear()
        self._bounds = dict.fromkeys(self._columns, 0)
        self._block.clear()
        self._counted = None
        self._additions = 0

    @property
    def nbytes(self) -> int:
        counted = 0 if self._counted is None else self._counted.nbytes
        return self._block.nbytes + counted + sum(column.nbytes for column in self._columns.values())

    def _add(self, number: int, values: np.ndarray, more: int, ids: np.ndarray, groups: int) -> None:
        if more == 0:
            return
        if self._bounds.get(number, 0) + more > _SAFE:
            self._settle(number, more)
        if number not in self._columns:
            self._columns[number], self._bounds[number] = Growing(), 0
        kernel.active.add(ids, values, self._columns[number].reach(groups))
        self._bounds[number] += more

    def _settle(self, number: int, more: int) -> None:
        if more > _SAFE >> 1:
            raise OverflowError("more values at once than an exact sum can take")
        column = self._columns[number]
        self._bounds[number] = bound(column.head(column.used))
        if self._bounds[number] + more <= _SAFE >> 1:
            return
        groups = max(column.used for column in self._columns.values())
        carried = floatsum.carry({limb: column.head(groups) for limb, column in self._columns.items()})
        for limb, values in carried.items():
            self._columns.setdefault(limb, Growing()).replace(values)
            self._bounds[limb] = bound(values)

    def _widen(self, values: np.ndarray) -> None:
        """Add columns to the block for all limbs of the finite values. Cost: a copy, rarely."""
        exponents = (values.view(np.int64) >> np.int64(MANTISSA_BITS)) & np.int64(0x7FF)
        exponents = np.maximum(exponents[(values != 0) & np.isfinite(values)], 1)
        limbs = (exponents - np.int64(BIAS)) // LIMB_BITS + LIMB_MIN
        lowest = min(int(limbs.min()), self._lowest)
        end = max(int(limbs.max()) + _FLOAT_REACH, self._lowest + self._limbs)
        wide, used = Growing(width=1 + end - lowest), self._block.used
        start, old = 1 + self._lowest - lowest, self._block.head(used)
        wide.reach(used)[:used, 0] = old[:, 0]
        wide.reach(used)[:used, start : start + self._limbs] = old[:, 1:]
        self._block, self._lowest, self._limbs = wide, lowest, end - lowest

    def _fold_block(self) -> None:
        rows = self._block.used
        limbs = {self._lowest + j: column.copy() for j, column in enumerate(self._block.head(rows).T[1:])}
        counts = self.floats_added(rows)
        self._counted = self._counted or Growing()
        self._counted.replace(counts)
        self._block.clear()
        self._additions = 0
        self.merge(floatsum.carry(limbs), np.arange(rows), rows)


def _fits(magnitude: int, count: int) -> bool:
    return magnitude <= _NARROW and magnitude * count <= _SAFE >> 1

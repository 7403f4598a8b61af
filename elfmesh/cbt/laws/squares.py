"""sumsq: the exact sum of squares, from which variance and standard deviation follow with count and sum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from elfmesh.cbt.laws.base import Accumulator, State, Values, one_column
from elfmesh.cbt.laws.sums import Sum, SumAccumulator, limbs_of
from elfmesh.cbt.sums import floatsum
from elfmesh.cbt.sums.exactsum import ExactSums
from elfmesh.errors import DataError

_SHORT = 1 << 31
_MASK = np.int64((1 << floatsum.LIMB_BITS) - 1)
_SHIFT = np.int64(floatsum.LIMB_BITS)
_SPLITTER = float((1 << 27) + 1)
_SCALE_LIMBS = 38
_SCALE = 2.0 ** (_SCALE_LIMBS * floatsum.LIMB_BITS // 2)
"""Squares of numbers outside [_SMALL, _LARGE] exceed the range of floats, so these numbers are scaled
first."""
_SMALL, _LARGE = 2.0**-480, 2.0**500


class SumOfSquares(Sum):
    """Exact sum of squares; int64 stays integer, decimals are squared as float64, as in Spark's variance."""

    kind, timed = "sumsq", ()
    limb_min, limb_max = 2 * floatsum.LIMB_MIN, 2 * floatsum.LIMB_MAX

    def value_type(self, values: Values, name: str) -> pa.DataType:
        """Return float64, or int64 for integers."""
        data_type = super().value_type(values, name)
        return pa.float64() if pa.types.is_decimal(data_type) else data_type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        return SquareAccumulator(self.kind, data_type)


class SquareAccumulator(SumAccumulator):
    """Accumulator of sums that adds squares."""

    def __init__(self, kind: str, data_type: pa.DataType) -> None:
        super().__init__(kind, data_type)
        # Sums of squares of scaled numbers, by the limbs by which scaling moved them.
        self._scaled = {_SCALE_LIMBS: ExactSums(), -_SCALE_LIMBS: ExactSums()}

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add values. Cost: that of two sums."""
        column = one_column(values)
        super().add(column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column, ids, groups)

    def clear(self) -> None:
        super().clear()
        for sums in self._scaled.values():
            sums.clear()

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(sums.nbytes for sums in self._scaled.values())

    def _add_ints(self, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
        if floatsum.bound(values) < _SHORT:
            self._sums.add_ints(values * values, ids, groups)
            return
        # -2**63 wraps to itself, but its bits are the correct magnitude as unsigned.
        magnitudes = np.abs(values)
        low, high = magnitudes & _MASK, (magnitudes >> _SHIFT) & _MASK
        lows = low.view(np.uint64) * low.view(np.uint64)
        cross, highs = low * high, high * high
        pieces = {
            0: (lows & np.uint64(_MASK)).view(np.int64),
            1: (lows >> np.uint64(_SHIFT)).view(np.int64) + 2 * (cross & _MASK),
            2: 2 * (cross >> _SHIFT) + (highs & _MASK),
            3: highs >> _SHIFT,
        }
        self._sums.merge(pieces, ids, groups)

    def _counts(self, groups: int) -> np.ndarray:
        return self._values.head(groups).copy()  # the sums cannot count: squares may be added in parts

    def _add_floats(self, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
        values, ids = self._finite(np.abs(values), ids, groups)  # because the square of -inf is inf
        self._count(ids, groups)
        large, small = values > _LARGE, (values < _SMALL) & (values > 0)
        for mask, scale, limbs in ((large, 1 / _SCALE, _SCALE_LIMBS), (small, _SCALE, -_SCALE_LIMBS)):
            if mask.any():
                _add_squares(self._scaled[limbs], values[mask] * scale, ids[mask], groups)
        if large.any() or small.any():
            usual = ~(large | small)
            values, ids = values[usual], ids[usual]
        _add_squares(self._sums, values, ids, groups)

    def _limbs(self, groups: int) -> floatsum.Limbs:
        sums = ExactSums()
        everyone = np.arange(groups)
        scaled = {by: held.limbs(groups) for by, held in self._scaled.items()}
        if not any(scaled.values()):
            return super()._limbs(groups)
        sums.merge(super()._limbs(groups), everyone, groups)
        for by, limbs in scaled.items():
            sums.merge({number + by: column for number, column in limbs.items()}, everyone, groups)
        return sums.limbs(groups)


def _add_squares(sums: ExactSums, values: np.ndarray, ids: np.ndarray, groups: int) -> None:
    """Add exact squares: the rounded product and its error, which is a float too (Dekker 1971)."""
    spread = values * _SPLITTER
    high = spread - (spread - values)
    low = values - high
    product = values * values
    error = ((high * high - product) + 2 * high * low) + low * low
    sums.add_floats(product, ids, groups)
    if error.any():
        sums.add_floats(error, ids, groups)


def central_squares(sums: State, squares: State) -> np.ndarray:
    """Return float64[groups], sums of squared distances from the mean; NaN without finite values.

    variance = this / (n - 1), or / n for a whole population. The computation is exact and rounds once.

    Raises:
        DataError: The two states have different values.

    Cost: some microseconds per group, in Python's integers.
    """
    counts = sums.parts["values"]
    if not np.array_equal(counts, squares.parts["values"]):
        raise DataError("a variance needs sum and sumsq of the same values")
    special = np.zeros(len(counts), np.bool_)
    for name in ("nan", "posinf", "neginf"):
        if name in sums.parts:
            special |= sums.parts[name] > 0
    total, square = limbs_of(sums), limbs_of(squares)
    out = np.full(len(counts), np.nan)
    for group in np.flatnonzero((counts > 0) & ~special).tolist():
        mean_square = floatsum.exact(total, group) ** 2 / int(counts[group])
        out[group] = rounded(floatsum.exact(square, group) - mean_square)
    return out


def rounded(value: Fraction) -> float:
    """Return the nearest float; an infinity beyond the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return np.inf if value > 0 else -np.inf

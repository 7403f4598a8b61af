"""Adding columns up by group number, in place. Every function costs O(values), never O(groups)."""

from __future__ import annotations

import numpy as np

from elfmesh.cbt.kernel.ranks import float_rank

_MANTISSA_BITS = 52
_LIMB_BITS = 32
_LIMB_MIN = -34
_BIAS = 1075 + _LIMB_MIN * _LIMB_BITS
"""A biased exponent minus this is the place of the lowest mantissa bit, counted from limb -34."""

_MASK = np.int64((1 << _LIMB_BITS) - 1)
_SHIFT = np.int64(_LIMB_BITS)


def count(ids: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.count`."""
    np.add.at(out, ids, np.int64(1))


def add(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.add`."""
    np.add.at(out, ids, values)


def least(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.least`."""
    np.minimum.at(out, ids, values)


def greatest(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.greatest`."""
    np.maximum.at(out, ids, values)


def least_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.least_floats`."""
    least(ids, float_rank(values.view(np.int64)), out)


def greatest_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.greatest_floats`."""
    greatest(ids, float_rank(values.view(np.int64)), out)


def add_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> int:
    """See `Kernel.add_floats`."""
    limb, pieces = _split(values)
    columns = out.shape[1]
    place = limb - lowest
    fits = np.isfinite(values)
    for above, piece in enumerate(pieces):
        fits &= (piece == 0) | ((place + above >= 0) & (place + above < columns - 1))
    added = len(values) if fits.all() else int(np.argmin(fits))
    flat = out.reshape(-1)  # a view: `out` is in C order
    np.add.at(flat, ids[:added] * columns, np.int64(1))
    cells = ids[:added] * columns + 1 + place[:added]
    for above, piece in enumerate(pieces):
        rows = np.flatnonzero(piece[:added])
        np.add.at(flat, cells[rows] + above, piece[rows])
    return added


def _split(values: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The lowest limb of each value, and what falls on it and on the two above."""
    bits = values.view(np.int64)
    biased = (bits >> np.int64(_MANTISSA_BITS)) & np.int64(0x7FF)
    mantissa = bits & np.int64((1 << _MANTISSA_BITS) - 1)
    mantissa |= (biased > 0).astype(np.int64) << np.int64(_MANTISSA_BITS)
    place = np.maximum(biased, 1) - np.int64(_BIAS)
    offset = place & np.int64(_LIMB_BITS - 1)
    sign = np.where(bits < 0, np.int64(-1), np.int64(1))
    # 53 bits shifted by up to 31 reach over three limbs; a shift left wraps, its low 32 bits are still right.
    pieces = (
        ((mantissa << offset) & _MASK) * sign,
        ((mantissa >> (_SHIFT - offset)) & _MASK) * sign,
        ((mantissa >> _SHIFT) >> (_SHIFT - offset)) * sign,
    )
    return (place >> np.int64(5)) + _LIMB_MIN, pieces

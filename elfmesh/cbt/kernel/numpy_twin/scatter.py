"""Addition of columns by group number, in place. Every function costs O(values), never O(groups)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elfmesh.cbt.kernel.protocol import FLIPS, Field, FieldKind
from elfmesh.cbt.kernel.ranks import float_rank

_MANTISSA_BITS = 52
_LIMB_BITS = 32
_LIMB_MIN = -34
_BIAS = 1075 + _LIMB_MIN * _LIMB_BITS
"""A biased exponent minus this is the position of the lowest mantissa bit, counted from limb -34."""

_MASK = np.int64((1 << _LIMB_BITS) - 1)
_SHIFT = np.int64(_LIMB_BITS)


def count(ids: np.ndarray, out: np.ndarray) -> None:
    np.add.at(out, ids, np.int64(1))


def add(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    np.add.at(out, ids, values)


def least(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    np.minimum.at(out, ids, values)


def greatest(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    np.maximum.at(out, ids, values)


def least_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    least(ids, float_rank(values.view(np.int64)), out)


def greatest_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    greatest(ids, float_rank(values.view(np.int64)), out)


def add_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> int:
    limb, pieces = _split(values, _BIAS)
    columns = out.shape[1]
    place = limb + _LIMB_MIN - lowest
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


def _split(values: np.ndarray, bias: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the lowest 32-bit place of each value, counted from the bias, and its three pieces."""
    bits = values.view(np.int64)
    biased = (bits >> np.int64(_MANTISSA_BITS)) & np.int64(0x7FF)
    mantissa = bits & np.int64((1 << _MANTISSA_BITS) - 1)
    mantissa |= (biased > 0).astype(np.int64) << np.int64(_MANTISSA_BITS)
    place = np.maximum(biased, 1) - np.int64(bias)
    offset = place & np.int64(_LIMB_BITS - 1)
    sign = np.where(bits < 0, np.int64(-1), np.int64(1))
    # 53 bits that are shifted by up to 31 touch three limbs. The left shift wraps, but its low 32 bits are
    # correct.
    pieces = (
        ((mantissa << offset) & _MASK) * sign,
        ((mantissa >> (_SHIFT - offset)) & _MASK) * sign,
        ((mantissa >> _SHIFT) >> (_SHIFT - offset)) * sign,
    )
    return place >> np.int64(5), pieces


def add_fields(ids: np.ndarray, out: np.ndarray, fields: Sequence[Field]) -> None:
    for kind, place, values, lowest in fields:
        if values is None or kind == FieldKind.COUNT:
            np.add.at(out[:, place], ids, np.int64(1))
        elif kind == FieldKind.SUM:
            np.add.at(out[:, place], ids, values)
        elif kind == FieldKind.FLOAT_SUM:
            _add_fixed(ids, values.view(np.float64), out[:, place : place + 2].view(np.uint64), lowest)
        else:
            ranks = float_rank(values) if kind >= FieldKind.LEAST_FLOAT else values
            np.maximum.at(out[:, place].view(np.uint64), ids, (ranks ^ FLIPS[kind]).view(np.uint64))


def _add_fixed(ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> None:
    """Add floats to uint64[groups, 2] of 128 bits each."""
    touched, rows = np.unique(ids, return_inverse=True)
    limb, pieces = _split(values, 1075 + lowest)
    place = np.where(values == 0, 0, limb)
    # The result fits below the fifth limb.
    sums = np.zeros((len(touched), 5), np.int64)
    for above, piece in enumerate(pieces):
        np.add.at(sums, (rows.reshape(-1), place + above), piece)
    for number in range(3):
        sums[:, number + 1] += sums[:, number] >> _SHIFT
        sums[:, number] &= _MASK
    words = (sums[:, (0, 2)] | sums[:, (1, 3)] << _SHIFT).view(np.uint64)
    low = out[touched, 0] + words[:, 0]
    out[touched, 1] += words[:, 1] + (low < words[:, 0])
    out[touched, 0] = low


def take_rows(source: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(source[rows].T)


def span_floats(values: np.ndarray) -> tuple[int, int] | None:
    magnitudes = values.view(np.int64) & np.int64(np.iinfo(np.int64).max)
    magnitudes = magnitudes[magnitudes != 0]
    if not len(magnitudes):
        return None
    exponents = np.maximum(magnitudes >> np.int64(_MANTISSA_BITS), 1)
    return int(exponents.min()) - 1075, int(exponents.max()) - 1022

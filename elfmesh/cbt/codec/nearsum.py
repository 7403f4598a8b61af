"""Short form of exact float sums: the nearest short decimal, and the small difference from the sum.

A sum of decimals such as 12.34 differs from a decimal by a few units in its last place at most. It is stored
as

    near    float64: the nearest decimal of few digits if sums look like that, else the approximate sum
    rest    int64, the sum minus `near`, in units of 2**unit

This is exact, because both are multiples of a power of two. `spread(gather(limbs))` represents the same
numbers as `limbs`, possibly by other limbs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from elfmesh.cbt import kernel
from elfmesh.cbt.codec.column_codec import DIGITS_MAX, POWERS
from elfmesh.cbt.kernel import ANY_FLOAT, ShortSums
from elfmesh.cbt.sums.floatsum import LIMB_BITS, LIMB_MIN, MANTISSA_BITS, Limbs, bound

_MASK = np.int64((1 << LIMB_BITS) - 1)
_SHORT = 1 << 31
_LIMBS_MAX = 12
"""Maximum number of limbs in short form; more are far beyond one float's digits, so no float is near the
sum."""
_UNIT_MAX = 1100
_NEAR_MAX = 1 << 52
_REST_BITS = 62
_FLOAT_LIMBS = 3
_SPREAD_MAX = 3
"""Limbs from the lowest of the smallest float to the lowest of the largest; `gather` uses 64 bits."""
SPREAD_LIMBS_MAX = _SPREAD_MAX + 2 * _FLOAT_LIMBS


def gather(limbs: Mapping[int, np.ndarray]) -> ShortSums | None:
    """Convert limbs to the short form; None if it is not shorter or does not fit in 62 bits."""
    if not 2 <= len(limbs) <= _LIMBS_MAX or min(limbs) < LIMB_MIN:
        return None
    return kernel.active.short_sums(limbs)


def add_short(sums: ShortSums, ids: np.ndarray, groups: int, times: int) -> ShortSums | None:
    """Add sums in short form (except ANY_FLOAT) by group, unconverted; None if the result might not fit.

    `times` is the most occurrences of a group. Cost: about six passes over the rows and over the groups.
    """
    near, digits, rest, unit = sums.near, sums.digits, sums.rest, sums.unit
    if bound(near) * times >= _NEAR_MAX:
        return None
    added, total = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    kernel.active.add(ids, near, added)
    # The rests have a unit; decimals, and sums that are smaller than their addends, may have lower bits.
    # lower bits.
    power = float(POWERS[digits])
    smallest = min(_least_magnitude(near), _least_magnitude(added))
    finer = max(unit - _lowest_bit(smallest / power), 0)
    # Each decimal is off by at most half a unit in its last place, and so is the sum.
    above = _lowest_bit(bound(near) * times / power) - unit + finer
    if max(above, finer) >= _REST_BITS:
        return None
    if (bound(rest) * times << finer) + (times + 2 << max(above, 0)) >= 1 << _REST_BITS:
        return None
    unit -= finer
    units = kernel.active.short_units(near, digits, unit) + (rest << np.int64(finer))
    kernel.active.add(ids, units, total)
    return ShortSums(added, digits, total - kernel.active.short_units(added, digits, unit), unit)


def _lowest_bit(value: float) -> int:
    """Return the exponent of the lowest bit of a float of this magnitude; a high one for 0."""
    return math.frexp(value)[1] - MANTISSA_BITS - 1 if value else _UNIT_MAX


def _least_magnitude(values: np.ndarray) -> int:
    least = int(values.min(initial=_NEAR_MAX))
    if least > 0:
        return least
    values = np.abs(values[values != 0])
    return int(values.min(initial=_NEAR_MAX))


def spread(sums: ShortSums) -> Limbs:
    """Convert sums in short form to at most SPREAD_LIMBS_MAX limbs. Cost: one addition of floats."""
    if not LIMB_BITS * LIMB_MIN <= sums.unit <= _UNIT_MAX or not ANY_FLOAT <= sums.digits <= DIGITS_MAX:
        raise ValueError(f"sums of {sums.digits} digits in units of 2**{sums.unit}")
    near = sums.near.view(np.float64) if sums.digits == ANY_FLOAT else sums.near / POWERS[sums.digits]
    rows = len(near)
    magnitudes = np.abs(near)
    largest = float(magnitudes.max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("a sum that is not a number")
    limbs: Limbs = {}
    if largest:
        smallest = float(magnitudes.min(initial=largest))
        if smallest == 0.0:
            smallest = float(magnitudes.min(initial=largest, where=magnitudes != 0.0))
        first, last = _lowest_limb(smallest), _lowest_limb(largest)
        if last - first > _SPREAD_MAX:
            raise ValueError("sums that are too far apart to be in one block")
        block = np.zeros((rows, 1 + last - first + _FLOAT_LIMBS), np.int64)
        kernel.active.add_floats(np.arange(rows), near, block, first)
        limbs = {first + place: column for place, column in enumerate(np.ascontiguousarray(block.T[1:]))}
    for number, piece in _pieces(sums.rest, sums.unit):
        limbs[number] = limbs[number] + piece if number in limbs else piece
    return {number: limbs[number] for number in sorted(limbs) if limbs[number].any()}


def _lowest_limb(value: float) -> int:
    place = max(math.frexp(value)[1] - MANTISSA_BITS - 1, LIMB_BITS * LIMB_MIN)
    return place // LIMB_BITS


def _pieces(rest: np.ndarray, unit: int) -> list[tuple[int, np.ndarray]]:
    number, shift = divmod(unit, LIMB_BITS)
    places = np.int64(shift)
    if bound(rest) < _SHORT:
        moved = rest << places
        return [(number, moved & _MASK), (number + 1, moved >> np.int64(LIMB_BITS))]
    low, high = (rest & _MASK) << places, (rest >> np.int64(LIMB_BITS)) << places
    return [
        (number, low & _MASK),
        (number + 1, (low >> np.int64(LIMB_BITS)) + (high & _MASK)),
        (number + 2, high >> np.int64(LIMB_BITS)),
    ]

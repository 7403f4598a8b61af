"""Exact float sums in few bytes: the nearest short number, and the little that is left of the sum.

A sum of decimals such as 12.34 is close to a decimal of as many digits: each value is off by half a unit in
its last place at most, so the sum is off by some of these units. So an exact sum is stored as

    near    float64: the nearest decimal of few digits if sums look like that, else the sum roughly rounded
    rest    int64, the sum less `near`, in units of 2**unit

which is exact: `near` is a float, hence a multiple of a power of two as the sum is, and so is what is left.

Owns: this form and its way back to limbs.
Refuses to know: how columns become bytes, what the sums are of.

Invariant: `spread(gather(limbs))` stands for the same numbers as `limbs`; the limbs may be others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elfmesh.cbt import kernel
from elfmesh.cbt.column_codec import DIGITS_MAX, POWERS
from elfmesh.cbt.floatsum import BIAS, LIMB_BITS, LIMB_MIN, MANTISSA_BITS, Limbs, bound

_MASK = np.int64((1 << LIMB_BITS) - 1)
_EXPONENT = np.int64(0x7FF)
_LOWEST_BIT = BIAS - LIMB_MIN * LIMB_BITS
"""The biased exponent of a float less this is the exponent of its lowest bit."""
_ROUGHLY = 2.0**-49
"""How far a float sum of a few limbs may be off, as a share of their magnitudes."""
_NOISE = 2.0**-42
"""How far from a decimal a sum of decimals may be, as a share of the largest, to be taken for one."""
_SHORT = 1 << 31
_SAMPLE_ROWS = 128
"""Sums that decide of how many digits all are: a wrong guess costs bytes."""
_LIMBS_MAX = 12
"""More limbs are far more than one float's digits, and too many for `_ROUGHLY`."""
_UNIT_MAX = 1100
_FLOAT_LIMBS = 3
_SPREAD_MAX = 3
"""Limbs from the lowest of the smallest float to the lowest of the largest: `gather` takes 64 bits."""
ANY_FLOAT = -1
SPREAD_LIMBS_MAX = _SPREAD_MAX + 2 * _FLOAT_LIMBS


@dataclass(frozen=True, slots=True)
class NearSums:
    """See the module.

    Attributes:
        near: int64: `near` times 10**digits, or the bits of `near`.
        digits: see there; ANY_FLOAT if they are bits.
        rest: int64.
        unit: of `rest`, as an exponent of two.
    """

    near: np.ndarray
    digits: int
    rest: np.ndarray
    unit: int


def gather(limbs: Mapping[int, np.ndarray]) -> NearSums | None:
    """Limbs in short; None if it would not be shorter, or what is left does not fit in 62 bits.

    Cost: some twenty passes.
    """
    if not 2 <= len(limbs) <= _LIMBS_MAX or min(limbs) < LIMB_MIN:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        rough, magnitude = _rough(limbs)
        largest = float(magnitude.max(initial=0.0))
        if not np.isfinite(largest):
            return None
        digits = _digits(rough, largest)
        near, stored = rough, rough.view(np.int64)
        if digits != ANY_FLOAT:
            scaled = np.rint(rough * POWERS[digits])
            near, stored = scaled / POWERS[digits], scaled.astype(np.int64)
        unit = _unit(limbs, near)
        off = np.abs(rough - near) + magnitude * _ROUGHLY
        if not off.max(initial=0.0) < np.ldexp(1.0, 62 + unit):
            return None
    # Both are multiples of the unit and their difference is below 2**62 of them: it may be taken mod 2**64.
    rest = -_float_units(near, unit)
    for number, values in limbs.items():
        shift = LIMB_BITS * number - unit
        if shift < 0:
            rest += values >> np.int64(-shift)
        elif shift < 64:
            rest += values << np.int64(shift)
    spare = _trailing_zeros(rest)
    return NearSums(stored, digits, rest >> np.int64(spare), unit + spare)


def _rough(limbs: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The sums as floats, exact where they are one value, and the magnitudes that went into them."""
    rough = magnitude = np.zeros(len(next(iter(limbs.values()))))
    for number in sorted(limbs, reverse=True):
        part = limbs[number] * np.ldexp(1.0, LIMB_BITS * number)
        rough = rough + part
        magnitude = magnitude + np.abs(part)
    return rough, magnitude


def _trailing_zeros(values: np.ndarray) -> int:
    """How many low bits are zero in all of them; 0 if all bits are."""
    used = int(np.bitwise_or.reduce(values))
    return (used & -used).bit_length() - 1 if used else 0


def _digits(rough: np.ndarray, largest: float) -> int:
    """Of the decimals that the sums are close to; ANY_FLOAT if they are not."""
    sample = rough[:: max(1, len(rough) // _SAMPLE_ROWS), None]
    noise = largest * _NOISE
    close = (np.abs(np.rint(sample * POWERS) / POWERS - sample) <= noise).all(axis=0)
    close &= (noise * POWERS < 1 / 64) & (largest * POWERS < 2.0**52)
    return int(np.argmax(close)) if close.any() else ANY_FLOAT


def _unit(limbs: Mapping[int, np.ndarray], near: np.ndarray) -> int:
    """The exponent of a power of two that divides all limbs and all floats."""
    lowest = min(limbs)
    unit = LIMB_BITS * lowest + min(_trailing_zeros(limbs[lowest]), LIMB_BITS)
    biased = (near.view(np.int64) >> np.int64(MANTISSA_BITS)) & _EXPONENT
    biased = np.where(near == 0.0, _EXPONENT, np.maximum(biased, 1))
    return min(unit, int(biased.min()) - _LOWEST_BIT)


def _float_units(values: np.ndarray, unit: int) -> np.ndarray:
    """int64: float64 multiples of 2**unit, in these units, mod 2**64."""
    bits = values.view(np.int64)
    biased = (bits >> np.int64(MANTISSA_BITS)) & _EXPONENT
    mantissa = bits & np.int64((1 << MANTISSA_BITS) - 1)
    mantissa |= (biased > 0).astype(np.int64) << np.int64(MANTISSA_BITS)
    shift = np.maximum(biased, 1) - np.int64(_LOWEST_BIT + unit)
    # Zeros have no lowest bit and may be shifted anywhere; what is shifted out is a multiple of 2**64.
    units = np.where((shift >= 0) & (shift < 64), mantissa << (shift & np.int64(63)), 0)
    return np.where(bits < 0, -units, units)


def spread(sums: NearSums) -> Limbs:
    """The limbs of sums in short, at most SPREAD_LIMBS_MAX of them. Cost: an addition of floats, some passes.

    Raises:
        ValueError: not what `gather` gives.
    """
    if not LIMB_BITS * LIMB_MIN <= sums.unit <= _UNIT_MAX or not ANY_FLOAT <= sums.digits <= DIGITS_MAX:
        raise ValueError(f"sums of {sums.digits} digits in units of 2**{sums.unit}")
    near = sums.near.view(np.float64) if sums.digits == ANY_FLOAT else sums.near / POWERS[sums.digits]
    rows = len(near)
    magnitudes = np.abs(near)
    largest = float(magnitudes.max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("a sum that is no number")
    limbs: Limbs = {}
    if largest:
        smallest = float(magnitudes.min(initial=largest))
        if smallest == 0.0:
            smallest = float(magnitudes.min(initial=largest, where=magnitudes != 0.0))
        first, last = _lowest_limb(smallest), _lowest_limb(largest)
        if last - first > _SPREAD_MAX:
            raise ValueError("sums that are too far apart to be in one block")
        block = np.zeros((rows, last - first + _FLOAT_LIMBS), np.int64)
        kernel.active.add_floats(np.arange(rows), near, block, first)
        limbs = {first + place: column for place, column in enumerate(np.ascontiguousarray(block.T))}
    for number, piece in _pieces(sums.rest, sums.unit):
        limbs[number] = limbs[number] + piece if number in limbs else piece
    return {number: limbs[number] for number in sorted(limbs) if limbs[number].any()}


def _lowest_limb(value: float) -> int:
    """The lowest limb that a float like this touches."""
    place = max(math.frexp(value)[1] - MANTISSA_BITS - 1, LIMB_BITS * LIMB_MIN)
    return place // LIMB_BITS


def _pieces(rest: np.ndarray, unit: int) -> list[tuple[int, np.ndarray]]:
    """Limbs of int64 multiples of 2**unit."""
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

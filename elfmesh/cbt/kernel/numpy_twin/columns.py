"""Columns of states: byte planes, decimals among floats, short form of exact sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from elfmesh.cbt.kernel.protocol import ANY_FLOAT, IntPart, ShortSums

_WIDTH_MAX = 8
_DIGITS_MAX = 6
_POWERS = 10.0 ** np.arange(_DIGITS_MAX + 1)
_SAMPLE_DECIMALS = 32
"""Rows by which a column of floats is tested for decimals; the other rows must then agree."""
_SAMPLE_SUMS = 128
"""Sums by which the number of digits of all is estimated; a wrong estimate only costs bytes."""
_MANTISSA = float(1 << 53)
_NEGATIVE_ZERO_BITS = np.int64(-(1 << 63))
_LIMB_BITS = 32
_MANTISSA_BITS = 52
_EXPONENT = np.int64(0x7FF)
_LOWEST_BIT = 1075
"""The biased exponent of a float minus this is the exponent of its lowest bit."""
_ROUGHLY = 2.0**-49
"""Maximum error of a float sum of a few limbs, as a share of their magnitudes."""
_NOISE = 2.0**-42
"""Maximum distance of a sum of decimals from a decimal, as a share of the largest."""


def pack_ints(
    values: np.ndarray, cuts: np.ndarray, order: np.ndarray | None = None
) -> tuple[int, int, list[bytes]]:
    width, base = _code(values)
    if order is not None:
        cuts = np.asarray(cuts)
        values, cuts = values[order[int(cuts[0]) : int(cuts[-1])]], cuts - cuts[0]
    with np.errstate(over="ignore"):
        values = values - np.int64(base) if base else values
    planes = np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, _WIDTH_MAX)[:, :width].T
    return (
        width,
        base,
        [planes[:, start:stop].tobytes() for start, stop in pairwise(np.asarray(cuts).tolist())],
    )


def _code(values: np.ndarray) -> tuple[int, int]:
    if len(values) == 0:
        return 0, 0
    low, high = int(values.min()), int(values.max())
    width = _bytes_of(high - low)
    if width == _WIDTH_MAX or (high > low >= 0 and _bytes_of(high) == width):
        return width, 0
    return width, low


def _bytes_of(number: int) -> int:
    return (number.bit_length() + 7) // 8


def unpack_ints(parts: Sequence[IntPart]) -> np.ndarray:
    out = np.zeros(sum(rows for rows, _, _, _ in parts), "<i8")
    spread, start = out.view(np.uint8).reshape(-1, _WIDTH_MAX), 0
    for rows, width, base, chunk in parts:
        if not 0 <= width <= _WIDTH_MAX or rows < 0 or len(chunk) != rows * width:
            raise ValueError("planes that do not fit their rows")
        planes = np.frombuffer(chunk, np.uint8).reshape(width, rows)
        for place in range(width):
            spread[start : start + rows, place] = planes[place]
        out[start : start + rows] += np.int64(base)
        start += rows
    return out.astype(np.int64, copy=False)


def scale_floats(values: np.ndarray) -> tuple[np.ndarray, int] | None:
    if len(values) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        sample = values[:: -(-len(values) // _SAMPLE_DECIMALS), None]
        matches = (np.rint(sample * _POWERS) / _POWERS == sample).all(axis=0)
        for digits in range(int(matches.argmax()), _DIGITS_MAX + 1):
            if not matches[digits]:
                return None
            scaled = np.rint(values * _POWERS[digits])
            if (scaled / _POWERS[digits] == values).all():
                # A result below 2**53 is an exact integer; -0.0 would come back as 0.0.
                fits = (
                    np.abs(scaled).max() < _MANTISSA
                    and not (values.view(np.int64) == _NEGATIVE_ZERO_BITS).any()
                )
                return (scaled.astype(np.int64), digits) if fits else None
    return None


def short_sums(limbs: Mapping[int, np.ndarray]) -> ShortSums | None:
    """See `Kernel.short_sums`. Cost: about twenty passes."""
    with np.errstate(over="ignore", invalid="ignore"):
        rough, magnitude = _rough(limbs)
        largest = float(magnitude.max(initial=0.0))
        if not np.isfinite(largest):
            return None
        digits = _digits(rough, largest)
        near, stored = rough, rough.view(np.int64)
        if digits != ANY_FLOAT:
            scaled = np.rint(rough * _POWERS[digits])
            near, stored = scaled / _POWERS[digits], scaled.astype(np.int64)
        unit = _unit(limbs, near)
        off = np.abs(rough - near) + magnitude * _ROUGHLY
        if not off.max(initial=0.0) < np.ldexp(1.0, 62 + unit):
            return None
    # Both are multiples of the unit and differ by less than 2**62 of them, so the difference can be computed
    # mod 2**64.
    rest = -_float_units(near, unit)
    for number, values in limbs.items():
        shift = _LIMB_BITS * number - unit
        if shift < 0:
            rest += values >> np.int64(-shift)
        elif shift < 64:
            rest += values << np.int64(shift)
    spare = _trailing_zeros(rest)
    return ShortSums(stored, digits, rest >> np.int64(spare), unit + spare)


def short_units(near: np.ndarray, digits: int, unit: int) -> np.ndarray:
    return _float_units(near.view(np.float64) if digits == ANY_FLOAT else near / _POWERS[digits], unit)


def _rough(limbs: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums as floats, exact if they are a single value, and the magnitudes of the addends."""
    rough = magnitude = np.zeros(len(next(iter(limbs.values()))))
    for number in sorted(limbs, reverse=True):
        part = limbs[number] * np.ldexp(1.0, _LIMB_BITS * number)
        rough = rough + part
        magnitude = magnitude + np.abs(part)
    return rough, magnitude


def _trailing_zeros(values: np.ndarray) -> int:
    """Return how many low bits are zero in all values; 0 if all bits are."""
    used = int(np.bitwise_or.reduce(values))
    return (used & -used).bit_length() - 1 if used else 0


def _digits(rough: np.ndarray, largest: float) -> int:
    sample = rough[:: max(1, len(rough) // _SAMPLE_SUMS), None]
    noise = largest * _NOISE
    close = (np.abs(np.rint(sample * _POWERS) / _POWERS - sample) <= noise).all(axis=0)
    close &= (noise * _POWERS < 1 / 64) & (largest * _POWERS < 2.0**52)
    return int(np.argmax(close)) if close.any() else ANY_FLOAT


def _unit(limbs: Mapping[int, np.ndarray], near: np.ndarray) -> int:
    lowest = min(limbs)
    unit = _LIMB_BITS * lowest + min(_trailing_zeros(limbs[lowest]), _LIMB_BITS)
    biased = (near.view(np.int64) >> np.int64(_MANTISSA_BITS)) & _EXPONENT
    biased = np.where(near == 0.0, _EXPONENT, np.maximum(biased, 1))
    return min(unit, int(biased.min(initial=int(_EXPONENT))) - _LOWEST_BIT)


def _float_units(values: np.ndarray, unit: int) -> np.ndarray:
    """Convert float64 multiples of 2**unit to int64 numbers of this unit, mod 2**64."""
    bits = values.view(np.int64)
    biased = (bits >> np.int64(_MANTISSA_BITS)) & _EXPONENT
    mantissa = bits & np.int64((1 << _MANTISSA_BITS) - 1)
    mantissa |= (biased > 0).astype(np.int64) << np.int64(_MANTISSA_BITS)
    shift = np.maximum(biased, 1) - np.int64(_LOWEST_BIT + unit)
    # Zeros have no lowest bit and may be shifted by any amount; bits that are shifted out are multiples of
    # 2**64.
    units = np.where((shift >= 0) & (shift < 64), mantissa << (shift & np.int64(63)), 0)
    return np.where(bits < 0, -units, units)


def give_back() -> bool:
    return False

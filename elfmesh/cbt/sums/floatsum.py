"""Exact sums: numbers are signed 32-bit limbs, so that addition is integer addition and never rounds.

Limb k of a group is an int64 that counts units of 2**(32 k); a sum is the total of its limbs. Any double is
three adjacent limbs between -34 (below 2**-1074) and 32 (2**1024); an int64 is limb 0, or limbs 0 and 1; a
decimal is its unscaled integer. Only limbs that some row needs exist. Limbs are not canonical, but the number
is exact. Sums are therefore associative, commutative and invertible whatever the shape of the tree (D-18),
and equal sums finish to equal bits (rounded once, to nearest, ties to even).

Paper: ELF 2.2 (merging PAOs up the tree). Deviation: the paper adds floats in the order of arrival, so the
result depends on the shape of the tree; here sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa

LIMB_BITS = 32
LIMB_MIN = -34
LIMB_MAX = 40
"""Maximum limb of a partial: 32 contains the top of the largest double; the rest is for carries."""

WHOLE_LIMB_MAX = 5
"""Maximum limb for integers and decimals: 2**63 values of 38 digits end below limb 6, and any int64 values in
these limbs represent a number of at most 76 digits."""

Limbs = dict[int, np.ndarray]
"""Limb number -> int64[groups]. An absent limb is zero."""

_MASK = np.int64((1 << LIMB_BITS) - 1)
_SHIFT = np.int64(LIMB_BITS)
_SAFE = 1 << 62
FEW_ROWS = 32
"""Sums that are rounded one by one, because Python's integers are faster than columns for so few."""

MANTISSA_BITS = 52
BIAS = 1075 + LIMB_MIN * LIMB_BITS
"""A biased exponent minus this is the position of the lowest mantissa bit, counted from limb LIMB_MIN."""
_DECIMAL128_LIMBS = 4
_DECIMAL256_LIMBS = 8
_TEN_38 = 10**38


def bound(values: np.ndarray) -> int:
    if len(values) == 0:
        return 0
    return max(int(values.max()), -int(values.min()))


def negate(limbs: Mapping[int, np.ndarray]) -> Limbs:
    if any(bound(values) > _SAFE for values in limbs.values()):
        limbs = carry(limbs)
    return {number: -values for number, values in limbs.items()}


def carry(limbs: Mapping[int, np.ndarray]) -> Limbs:
    """Return the same numbers with limbs in [0, 2**32), and the top one in [-2**32, 2**32)."""
    if not limbs:
        return {}
    out: Limbs = {}
    number, top = min(limbs), max(limbs)
    carried = np.zeros(len(limbs[top]), np.int64)
    while True:
        own = limbs.get(number)
        # Split before adding, because own + carried may overflow int64 if own came from a peer.
        low = (carried & _MASK) + (0 if own is None else own & _MASK)
        high = (carried >> _SHIFT) + (0 if own is None else own >> _SHIFT)
        out[number] = low & _MASK
        carried = high + (low >> _SHIFT)
        if number >= top and not ((carried != 0) & (carried != -1)).any():
            break
        number += 1
    # The carry out of the last limb is only its sign (0 or -1), so it is folded back.
    out[number] = out[number] + (carried << _SHIFT)
    return out


def to_floats(limbs: Mapping[int, np.ndarray], rows: int) -> np.ndarray:
    """Return float64[rows]: each exact sum rounded once, to nearest, ties to even.

    The result is infinite beyond the range.
    """
    if rows <= FEW_ROWS and limbs:
        return _few_floats(limbs)
    digits, negative, lowest = _digits(limbs, rows)
    if digits is None:
        return np.zeros(rows)
    nonzero = digits != 0
    top = len(digits) - 1 - np.argmax(nonzero[::-1], axis=0)
    row = np.arange(rows)
    first, second, third = digits[top, row], digits[top - 1, row], digits[top - 2, row]
    # Shift the leading one to bit 63. Bits that are shifted out set the lowest bit ("sticky"), so that the
    # single rounding of uint64 -> float64 is correct.
    # rounding of uint64 -> float64 is the right one.
    shift = (LIMB_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
    word = ((first.view(np.uint64) << np.uint64(32)) | second.view(np.uint64)) << shift
    low_shift = np.uint64(32) - shift
    word |= third.view(np.uint64) >> low_shift
    lost = (third.view(np.uint64) & ((np.uint64(1) << low_shift) - np.uint64(1))) != 0
    lost |= nonzero.any(axis=0) & (np.argmax(nonzero, axis=0) < top - 2)
    word |= lost.astype(np.uint64)
    exponent = LIMB_BITS * (top.astype(np.int64) - 3 + lowest) - shift.view(np.int64)
    with np.errstate(over="ignore"):
        rounded: np.ndarray = np.ldexp(word.astype(np.float64), exponent.astype(np.int32))
    return np.where(negative & (rounded != 0), -rounded, rounded)


def _few_floats(limbs: Mapping[int, np.ndarray]) -> np.ndarray:
    """As `to_floats`, row by row: Python's integer division rounds once, to nearest, ties to even."""
    lowest = min(limbs)
    shifts = [LIMB_BITS * (number - min(lowest, 0)) for number in limbs]
    unit = 1 << LIMB_BITS * max(-lowest, 0)
    rounded = []
    for row in zip(*(column.tolist() for column in limbs.values()), strict=True):
        total = sum(value << shift for value, shift in zip(row, shifts, strict=True))
        try:
            rounded.append(total / unit + 0.0)  # avoids a negative zero
        except OverflowError:
            rounded.append(math.inf if total > 0 else -math.inf)
    return np.array(rounded, np.float64)


def _digits(limbs: Mapping[int, np.ndarray], rows: int) -> tuple[np.ndarray | None, np.ndarray, int]:
    """Return magnitudes as digits [2 + limbs, rows] above two zero rows, signs, and the lowest limb."""
    carried = carry(limbs)
    if not carried or rows == 0:
        return None, np.zeros(rows, np.bool_), 0
    numbers = sorted(carried)
    negative = carried[numbers[-1]] < 0
    if negative.any():
        sign = np.where(negative, np.int64(-1), np.int64(1))
        carried = carry({number: values * sign for number, values in carried.items()})
        numbers = sorted(carried)
    digits = [np.zeros(rows, np.int64)] * 2 + [carried[number] for number in numbers]
    return np.stack(digits), negative, numbers[0]


def to_integers(limbs: Mapping[int, np.ndarray], rows: int) -> pa.Array:
    """Return the sums of integers: int64, or decimal(38,0) for all rows if one exceeds 64 bits."""
    if limbs.keys() == {0}:
        return pa.array(limbs[0])
    words, fits = _words(limbs, rows, 2)
    if fits:
        return pa.array(words.view("<i8").reshape(rows))
    return to_decimals(limbs, rows, 0)


def to_decimals(limbs: Mapping[int, np.ndarray], rows: int, scale: int) -> pa.Array:
    """Return the sums of decimals: decimal128(38, scale), or decimal256(76, scale) beyond 38 digits."""
    words, fits = _words(limbs, rows, _DECIMAL128_LIMBS)
    if fits and not _over_38_digits(words):
        buffer = pa.py_buffer(words.tobytes())
        return pa.Array.from_buffers(pa.decimal128(38, scale), rows, [None, buffer])
    words, fits = _words(limbs, rows, _DECIMAL256_LIMBS)
    if not fits:
        raise OverflowError("an exact sum has more than 76 digits")
    return pa.Array.from_buffers(pa.decimal256(76, scale), rows, [None, pa.py_buffer(words.tobytes())])


def _words(limbs: Mapping[int, np.ndarray], rows: int, width: int) -> tuple[np.ndarray, bool]:
    """Return two's complement as uint32 [rows, width], and whether all rows fit."""
    out = np.zeros((rows, width), "<u4")
    if not limbs:
        return out, True
    carried = carry({0: np.zeros(rows, np.int64), **limbs})
    top = max(carried)
    sign = np.where(carried[top] < 0, np.int64(-1), np.int64(0))
    fits = True
    for number in range(max(width, top + 1)):
        value = carried.get(number, sign)
        if number < width:
            out[:, number] = (value & _MASK).astype(np.uint32)
        else:
            fits = fits and bool(((value & _MASK) == (sign & _MASK)).all())
    negative_top = (out[:, width - 1] >> np.uint32(31)).astype(np.bool_)
    return out, fits and bool((negative_top == (sign < 0)).all())


def _over_38_digits(words: np.ndarray) -> bool:
    high = np.ascontiguousarray(words[:, 2:]).view("<i8").reshape(-1)
    suspects = np.flatnonzero((high > (_TEN_38 >> 64) - 1) | (high < -(_TEN_38 >> 64)))
    return any(
        abs(int.from_bytes(words[row].tobytes(), "little", signed=True)) >= _TEN_38 for row in suspects
    )


def exact(limbs: Mapping[int, np.ndarray], row: int) -> Fraction:
    """Return the exact sum of one row, for checks and for reading; slow."""
    if not limbs:
        return Fraction(0)
    lowest = min(limbs)
    units = sum(int(values[row]) << (LIMB_BITS * (number - lowest)) for number, values in limbs.items())
    return Fraction(units) * Fraction(2) ** (LIMB_BITS * lowest)

"""Readers of finished sketches: estimates, quantiles, and set operations on theta sketches.

The input is in Apache DataSketches' format, of any origin. Only `hll_estimates` needs the library: its result
is that of Spark's `hll_sketch_estimate`, which depends on tables in the library.

Owns the readers, and the use of the optional package `datasketches`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.cbt.laws.hll import COUPONS_MAX, LOG_REGISTERS, REGISTERS
from elfmesh.cbt.laws.murmur import SEED_HASH
from elfmesh.cbt.laws.theta import EVERYTHING, FAMILY, FLAG_EMPTY, VERSION, theta_bytes
from elfmesh.errors import ConfigError, DataError

_HLL_FAMILY, _KLL_FAMILY = 7, 15
_HLL_VALUES = 64
_PACKED = 4
"""Serial version of thetas with packed hashes, as Spark writes them."""
_HLL_INTS, _HLL_8 = (2, 3, 10), 2
"""Words of four bytes before the coupons of a list or a set, or the registers."""
_HLL_EMPTY, _HLL_COMPACT = 4, 8
_ADDRESS_BITS = 26
_KLL_EMPTY, _KLL_SINGLE = 1, 4
_KLL_COUNT_MAX = 1 << 40


class SketchError(DataError):
    """The bytes are not a sketch of the requested kind."""


def library() -> Any:
    """Return the package.

    Raises:
        ConfigError: It is missing.
    """
    try:
        import datasketches
    except ImportError:
        raise ConfigError(
            "hll_sketch_estimate needs the package datasketches, which is not installed",
            hint="Install it with: pip install 'elfmesh[sketches]', or write approx_count_distinct(x).",
        ) from None
    return datasketches


def hll_estimates(sketches: pa.Array) -> pa.Array:
    """Return float64 estimates of the distinct values in each hll, equal to the library's and Spark's.

    Raises:
        ConfigError: The package is missing.
        SketchError: The bytes are not an hll.
    """
    hll = library().hll_sketch

    def estimate(held: bytes | None) -> float | None:
        if held is None:
            return None
        try:
            return float(hll.deserialize(held).get_estimate())
        except (RuntimeError, ValueError, IndexError):
            raise SketchError("these bytes are not an hll sketch") from None

    return pa.array([estimate(held) for held in sketches.to_pylist()], pa.float64())


def hll_counts(sketches: pa.Array) -> pa.Array:
    """Return int64 estimates of the distinct values in each hll of our own, without the library.

    Up to 384 values are counted exactly; more by the improved raw estimator, which needs no tables. Paper:
    Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), algorithm 6.
    """
    return pa.array([_hll_count(held) for held in sketches.to_pylist()], pa.int64())


def _hll_count(held: bytes) -> int:
    assert held[2] == _HLL_FAMILY
    assert held[3] == LOG_REGISTERS
    mode = held[7] & 3
    if mode < 2:
        count = held[6] if mode == 0 else int.from_bytes(held[8:12], "little")
        assert count <= COUPONS_MAX
        return count
    registers = np.frombuffer(held, np.uint8, REGISTERS, len(held) - REGISTERS)
    counts = np.bincount(registers, minlength=_HLL_VALUES).tolist()
    z = REGISTERS * _tau(1 - counts[-1] / REGISTERS)
    for count in counts[-2:0:-1]:
        z = 0.5 * (z + count)
    z += REGISTERS * _sigma(counts[0] / REGISTERS)
    return round(REGISTERS * REGISTERS / (2 * math.log(2) * z))


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z, y = z + x * y, y + y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x, y, before = math.sqrt(x), 0.5 * y, z
        z -= (1 - x) ** 2 * y
    return z / 3


def kll_quantiles(sketches: pa.Array, ranks: Sequence[float]) -> pa.Array:
    """Return list<float64>: for each kll of doubles the least value that reaches each rank in [0, 1].

    Null without values. A rank includes the value itself, as in Spark's percentile_approx.

    Raises:
        SketchError: The bytes are not such a sketch.
    """
    return pa.array(
        [None if held is None else _kll_read(held, ranks) for held in sketches.to_pylist()],
        pa.list_(pa.float64()),
    )


def _kll_read(held: bytes, ranks: Sequence[float]) -> list[float] | None:
    sketch = kll_held(held)
    total = sketch.count
    if total == 0:
        return None
    order = np.argsort(sketch.values, kind="stable")
    reached = np.cumsum(np.int64(1) << sketch.levels[order].astype(np.int64))
    out = []
    for rank in ranks:
        wanted = min(max(math.ceil(rank * total), 1), total)
        if wanted == 1 or wanted == total:
            out.append(sketch.least if wanted == 1 else sketch.greatest)
        else:
            out.append(float(sketch.values[order[np.searchsorted(reached, wanted)]]))
    return out


class KllHeld(Struct, frozen=True):
    """Content of a kll of doubles.

    Attributes:
        count: number of all values.
        least: least value; zero without values, as `greatest`.
        greatest: greatest value.
        levels: uint8[n], ascending.
        values: float64[n]: one on level h represents 2**h values.
    """

    count: int
    least: float
    greatest: float
    levels: np.ndarray
    values: np.ndarray


def kll_held(held: bytes) -> KllHeld:
    """Read a kll of doubles.

    Raises:
        SketchError: The bytes are not one, or it has more than 2**40 values.
    """
    if len(held) < 8 or held[2] != _KLL_FAMILY:
        raise SketchError("these bytes are not a kll sketch")
    flags, k = held[3], int.from_bytes(held[4:6], "little")
    try:
        if flags & _KLL_EMPTY:
            return KllHeld(0, 0.0, 0.0, np.zeros(0, np.uint8), np.zeros(0, np.float64))
        if flags & _KLL_SINGLE:
            count, sizes, values = 1, np.ones(1, np.int64), np.frombuffer(held, "<f8", 1, 8)
            least = greatest = float(values[0])
            top = 1
        else:
            count, top = int.from_bytes(held[8:16], "little"), held[18]
            starts = np.frombuffer(held, "<u4", top, 20).astype(np.int64)
            least, greatest = np.frombuffer(held, "<f8", 2, 20 + 4 * top).tolist()
            values = np.frombuffer(held, "<f8", -1, 36 + 4 * top)
            sizes = np.diff(starts, append=starts[0] + len(values))
        levels = np.repeat(np.arange(top, dtype=np.uint8), sizes)
    except (ValueError, IndexError):
        raise SketchError("these bytes are not a kll sketch of doubles") from None
    weight = sum(size << level for level, size in enumerate(sizes.tolist()))
    ordered = len(values) > 0 and least <= float(values.min()) <= float(values.max()) <= greatest
    if k == 0 or weight != count or not 0 < count <= _KLL_COUNT_MAX or not ordered:
        raise SketchError("these bytes are not a kll sketch of doubles")
    return KllHeld(count, least, greatest, levels, values)


# -- hll


def hll_held(held: bytes) -> bytes:
    """Return the content of an hll of 4,096 registers: ascending coupons of four bytes, or registers of one.

    Raises:
        SketchError: The bytes are not one, or its registers have another type than HLL_8.
    """
    mode = held[7] & 3 if len(held) >= 8 else 3
    if mode == 3 or held[0] != _HLL_INTS[mode] or held[1] != 1 or held[2] != _HLL_FAMILY:
        raise SketchError("these bytes are not an hll sketch")
    if held[3] != LOG_REGISTERS:
        raise SketchError(f"an hll of {1 << min(held[3], 21)} registers, not of {REGISTERS}")
    if mode == 2:
        registers = held[4 * _HLL_INTS[mode] :]
        if held[7] >> 2 & 3 != _HLL_8 or len(registers) != REGISTERS or max(registers) >= _HLL_VALUES:
            raise SketchError("an hll of another type, or of a wrong length")
        return registers
    at = 8 if mode == 0 else 12
    count = held[6] if mode == 0 else int.from_bytes(held[8:12], "little")
    places = count if held[5] & _HLL_COMPACT else 1 << min(held[4], LOG_REGISTERS)
    if held[5] & _HLL_EMPTY:
        count = places = 0
    elif len(held) != at + 4 * places:
        raise SketchError("an hll of a wrong length")
    coupons = np.frombuffer(held, "<u4", places, at)
    found = np.unique(coupons[coupons != 0])
    if len(found) != count or count > COUPONS_MAX or (found >> _ADDRESS_BITS == 0).any():
        raise SketchError("an hll with invalid coupons")
    return found.tobytes()


# -- theta


def theta_estimate(held: bytes) -> float:
    """Return the estimate of the distinct values in a theta sketch.

    Raises:
        SketchError: The bytes are not a compact theta sketch.
    """
    hashes, theta = theta_held(held)
    return len(hashes) * (EVERYTHING / theta)


def theta_union(one: bytes, other: bytes, entries: int) -> bytes:
    """Return the union of two sketches with at most `entries` entries. Raises SketchError."""
    (a, theta_a), (b, theta_b) = theta_held(one), theta_held(other)
    theta = min(theta_a, theta_b)
    hashes = np.union1d(a, b)
    hashes = hashes[hashes < theta]
    if len(hashes) > entries:
        theta, hashes = int(hashes[entries]), hashes[:entries]
    return theta_bytes(hashes, theta)


def theta_intersection(one: bytes, other: bytes) -> bytes:
    """Return the intersection of two sketches. Raises SketchError."""
    (a, theta_a), (b, theta_b) = theta_held(one), theta_held(other)
    theta = min(theta_a, theta_b)
    hashes = np.intersect1d(a, b, assume_unique=True)
    return theta_bytes(hashes[hashes < theta], theta)


def theta_difference(one: bytes, other: bytes) -> bytes:
    """Return the values in the first sketch that are not in the second. Raises SketchError."""
    (a, theta_a), (b, theta_b) = theta_held(one), theta_held(other)
    theta = min(theta_a, theta_b)
    hashes = np.setdiff1d(a, b, assume_unique=True)
    return theta_bytes(hashes[hashes < theta], theta)


def theta_held(held: bytes) -> tuple[np.ndarray, int]:
    """Return the ascending hashes of a theta sketch, and the bound that all are below.

    Raises:
        SketchError: The bytes are not a compact theta sketch.
    """
    words = held[0] & 0x3F if len(held) >= 8 else 0
    if words not in (1, 2, 3) or held[1] not in (VERSION, _PACKED) or held[2] != FAMILY:
        raise SketchError("these bytes are not a compact theta sketch (serial version 3 or 4)")
    if held[5] & FLAG_EMPTY:
        return np.zeros(0, np.int64), EVERYTHING
    if int.from_bytes(held[6:8], "little") != SEED_HASH:
        raise SketchError("a theta sketch of another seed")
    if held[1] == _PACKED:
        return _theta_packed(held, words)
    theta = int.from_bytes(held[16:24], "little") if words == 3 else EVERYTHING
    body = held[8 * words :]
    count = 1 if words == 1 else int.from_bytes(held[8:12], "little")
    if len(body) != 8 * count or not 0 < theta <= EVERYTHING:
        raise SketchError("a theta sketch of a wrong length")
    hashes = np.sort(np.frombuffer(body, "<i8"))
    if count and (hashes[0] <= 0 or hashes[-1] >= theta):
        raise SketchError("a theta sketch with hashes out of range")
    return hashes, theta


def _theta_packed(held: bytes, words: int) -> tuple[np.ndarray, int]:
    """Read serial version 4: the differences of ascending hashes, with the number of bits of the widest."""
    bits, size = held[3], held[4]
    theta = int.from_bytes(held[8:16], "little") if words > 1 else EVERYTHING
    at = 8 * words + size
    count = int.from_bytes(held[8 * words : at], "little")
    body = np.frombuffer(held, np.uint8)[at:]
    if words > 2 or not 1 <= bits <= 63 or size > 4 or len(body) != -(-count * bits // 8):
        raise SketchError("a packed theta sketch of a wrong length")
    marks = np.unpackbits(body)[: count * bits].reshape(count, bits)
    distances = np.zeros(count, np.int64)
    for place in range(bits):
        distances = distances << 1 | marks[:, place]
    hashes = np.cumsum(distances)
    rises = bool((distances > 0).all() and (hashes > 0).all() and (hashes[1:] > hashes[:-1]).all())
    if not 0 < theta <= EVERYTHING or not rises or (count and hashes[-1] >= theta):
        raise SketchError("a packed theta sketch with hashes out of range")
    return hashes, theta

"""Interface of kernels: the hot operations on byte keys, front-coded runs and integer columns.

A kernel is a module with the functions of `Kernel`. There are two with the same contract: the native one, and
the numpy twin, which is its oracle in tests and replaces it without a compiler.

Owns the data structures that both use. Does not depend on column types, aggregates, compression or the tree.

Invariants of every function: inputs are read-only. No byte outside a buffer is read or written, whatever the
content of untrusted runs after `check_run`. Expensive loops run without the GIL. Ids, orders and maps are
int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from elfmesh.errors import DataError

KEY_BYTES_MAX = 65_535
"""Longest key, because lengths in runs have at most two bytes."""


class Keys(Struct, frozen=True):
    """Byte strings: key i is data[offsets[i] : offsets[i + 1]].

    Attributes:
        offsets: int32[n + 1], ascending; need not begin at 0.
        data: uint8, at least offsets[n] long.
    """

    offsets: np.ndarray
    data: np.ndarray

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.offsets) - 1


class Run(Struct, frozen=True):
    """Strictly ascending keys (by unsigned bytes), front-coded.

    Attributes:
        rows: number of keys.
        key_bytes: sum of their full lengths, which is the memory for decoding.
        wide: whether lengths have two bytes (little-endian) instead of one; needed if one is over 255.
        data: uint8: for every key the length of its common prefix with the previous key (exact; 0 for the
            first), then for every key the length of its rest, then all rests.
    """

    rows: int
    key_bytes: int
    wide: bool
    data: np.ndarray

    @property
    def nbytes(self) -> int:
        """Return the bytes of the coded keys."""
        return int(self.data.nbytes)


IntPart: TypeAlias = tuple[int, int, int, bytes | memoryview]
"""Integers as byte planes: rows, width, base, and width * rows bytes: the lowest byte of each integer minus
the base, then the next byte of each, and so on. If the width is 0, all equal the base."""


class FieldKind(IntEnum):
    """Content of a field of a row; every field is initially 0.

    COUNT: number of rows. SUM: sum of int64 values, wrapping. FLOAT_SUM: exact sum of floats, 128 bits in
    two's complement over two words, the lower one first, in units of 2**lowest. The others contain the
    extreme of int64 values or of the ranks of floats (`kernel.ranks`), as an unsigned number: that value xor
    `FLIPS`.
    """

    COUNT = 0
    SUM = 1
    FLOAT_SUM = 2
    LEAST = 3
    GREATEST = 4
    LEAST_FLOAT = 5
    GREATEST_FLOAT = 6


_SIGN = np.int64(np.iinfo(np.int64).min)
FLIPS = {
    FieldKind.LEAST: ~_SIGN,
    FieldKind.GREATEST: _SIGN,
    FieldKind.LEAST_FLOAT: ~_SIGN,
    FieldKind.GREATEST_FLOAT: _SIGN,
}
"""Masks that convert an int64 to an unsigned number whose maximum is the extreme."""

Field: TypeAlias = tuple[FieldKind, int, np.ndarray | None, int]
"""A kind, the first word in the row, the int64 values (floats by their bits; None to count), and `lowest`."""

ANY_FLOAT = -1
"""Value of `digits` for floats that are not decimals."""


class ShortSums(Struct, frozen=True):
    """Exact sums in short form; see `elfmesh.cbt.codec.nearsum`.

    Attributes:
        near: int64: `near` times 10**digits, or the bits of `near`.
        digits: number of digits; ANY_FLOAT if `near` has bits.
        rest: int64.
        unit: unit of `rest`, as an exponent of two.
    """

    near: np.ndarray
    digits: int
    rest: np.ndarray
    unit: int


class HotTable(Protocol):
    """Hash table from key bytes to dense row ids 0, 1, 2, ... in the order of first appearance.

    The hash of its index is keyed by a seed of the process, so that senders cannot choose keys that collide.
    """

    @property
    def rows(self) -> int:
        """Return the number of keys."""
        ...

    @property
    def key_bytes(self) -> int:
        """Return the sum of their lengths."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the bytes of index, offsets and key bytes, including unused capacity."""
        ...

    def upsert(self, keys: Keys) -> np.ndarray:
        """Return int64[n] ids of the keys; new keys are added. Nothing is added if it raises.

        Raises:
            ValueError: A key is longer than KEY_BYTES_MAX, or the key bytes would exceed 2**31 - 1.
        """
        ...

    def keys(self) -> Keys:
        """Return a copy of all keys in the order of their ids."""
        ...

    def order(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Kernel.sort_keys`, for all keys of the table, without copying them."""
        ...

    def runs(self, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        """See `Kernel.front_code`."""
        ...

    def clear(self) -> None:
        """Remove all keys; keeps the memory."""
        ...


class Kernel(Protocol):
    """Operations of a kernel. See the module's invariants."""

    def table(self, seed: int) -> HotTable: ...

    def hash_keys(self, keys: Keys) -> np.ndarray:
        """Return the placement hash uint64[n]: the same bits on every machine, its top bits well mixed."""
        ...

    def sort_keys(self, keys: Keys, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """Order distinct keys by (top `bits` of the placement hash, key bytes); 0 <= bits <= 16.

        Returns:
            int64[n] order, and int64[2**bits + 1] cuts of it, one part per value of the top bits.
        """
        ...

    def front_code(self, keys: Keys, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        """Return one run per part: part p has the keys at order[cuts[p] : cuts[p + 1]], which ascend."""
        ...

    def merge_runs(self, runs: Sequence[Run]) -> tuple[Run, list[np.ndarray]]:
        """Merge 1..4096 runs to one; also return, per run, int64[rows] with the new row of each key."""
        ...

    def partition_run(self, run: Run, skip: int, bits: int) -> tuple[list[Run], np.ndarray]:
        """Split a run by bits [skip, skip + bits) of the placement hash, counted from the top.

        Returns:
            2**bits runs (some of them empty), and int64[rows]: the source rows, run by run.
        """
        ...

    def pack_bits(self, run: Run) -> bytes | None:
        """Pack the bytes of a run with few, evenly distributed values into few bits, for `unpack_bits`.

        Returns None if, by a sample, an entropy coder would take a ninth less, and for a wide run.
        """
        ...

    def unpack_bits(self, rows: int, packed: bytes | memoryview) -> bytes:
        """Return the data of a run with this number of rows.

        Raises:
            ValueError: The lengths do not fit.
        """
        ...

    def decode_run(self, run: Run) -> Keys:
        """Return all keys; offsets begin at 0."""
        ...

    def check_run(self, rows: int, wide: bool, data: np.ndarray, key_bytes_max: int) -> Run:
        """Check a run from outside: lengths fit the bytes and each other, and keys ascend strictly.

        Raises:
            ValueError: It is not a run, or decodes to more than key_bytes_max.
        """
        ...

    def encode_keys(self, columns: Sequence[KeyColumn], rows: int) -> Keys:
        """Encode typed columns as key bytes, row by row, in the format of `elfmesh.cbt.keys`.

        Raises:
            KeyOverflow: Keys are longer than KEY_BYTES_MAX (all are named), or exceed 2 GiB together.
        """
        ...

    def decode_keys(self, keys: Keys, shape: Sequence[tuple[int, bool]]) -> list[KeyColumn]:
        """Invert `encode_keys`, by (width, nullable) per column.

        Raises:
            ValueError: The keys do not have this shape.
        """
        ...

    def count(self, ids: np.ndarray, out: np.ndarray) -> None:
        """out[id] += 1 for every id; out is int64."""
        ...

    def add(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] += value, as wrapping int64; the caller ensures that it does not overflow."""
        ...

    def least(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] = min(out[id], value), int64."""
        ...

    def greatest(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] = max(out[id], value), int64."""
        ...

    def least_floats(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] = min(out[id], rank of value) for float64 values, int64 ranks: see `kernel.ranks`."""
        ...

    def greatest_floats(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] = max(out[id], rank of value), as `least_floats`."""
        ...

    def add_floats(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> int:
        """Add float64 values exactly to int64[groups, 1 + limbs] in C order.

        Column 0 counts the added values, column 1 + j is limb lowest + j, so a value touches one place in
        memory.

        Limbs are those of `elfmesh.cbt.sums.floatsum`: signed multiples of 2**(32 * limb), each value spread
        over at most three, every piece below 2**32 in magnitude. The caller carries before 2**30 additions.

        Returns:
            How many values were added: all, or those before the first that is not finite or needs a limb
                outside the
            columns.
        """
        ...

    def add_fields(self, ids: np.ndarray, out: np.ndarray, fields: Sequence[Field]) -> None:
        """Add to several fields of int64[groups, width] rows in C order: see FieldKind.

        A value touches one place in memory. The caller ensures that no sum overflows its words.
        """
        ...

    def take_rows(self, source: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return int64[width, len(rows)]: these rows of int64[groups, width], column by column."""
        ...

    def span_floats(self, values: np.ndarray) -> tuple[int, int] | None:
        """Return exponents (lowest, top): values are multiples of 2**lowest, in magnitude below 2**top.

        Top is 1025 if some are not finite. None if all are zero.
        """
        ...

    def pack_ints(
        self, values: np.ndarray, cuts: np.ndarray, order: np.ndarray | None = None
    ) -> tuple[int, int, list[bytes]]:
        """Encode int64 values as byte planes: width and base for all, and a chunk per part.

        Args:
            values: int64[n]; width and base are the least that fit all of them, with a preference for base 0.
            cuts: int64[parts + 1], ascending; part p is rows cuts[p] to cuts[p + 1] of `order`.
            order: int64, rows of `values`; None: unchanged.
        """
        ...

    def unpack_ints(self, parts: Sequence[IntPart]) -> np.ndarray:
        """Return the concatenated integers of all parts as int64; the addition of the base wraps.

        Raises:
            ValueError: Planes do not fit their rows.
        """
        ...

    def scale_floats(self, values: np.ndarray) -> tuple[np.ndarray, int] | None:
        """Return int64 and digits with values == int64 / 10**digits, bit for bit; None if there are none.

        32 values decide where to begin; at most 6 digits are tried.
        """
        ...

    def short_sums(self, limbs: Mapping[int, np.ndarray]) -> ShortSums | None:
        """Convert 1 to 12 limbs of `elfmesh.cbt.sums.floatsum` to the short form.

        Returns None if the rest is too large.
        """
        ...

    def give_back(self) -> bool:
        """Return the allocator's free memory to the system; False if this is not possible."""
        ...

    def short_units(self, near: np.ndarray, digits: int, unit: int) -> np.ndarray:
        """Return int64: the floats near / 10**digits (or those of these bits) in units of 2**unit, mod 2**64.

        Each is a multiple of the unit; `unit` is within +-4096.
        """
        ...


class KeyColumn(Struct, frozen=True):
    """Column for the encoding or from the decoding of key bytes.

    Attributes:
        width: bytes of the value: 8, 4 or 1 (int64, int32 or uint8 values), 16 (int64[n, 2], low and high
            half), 0 for a column of nulls, or -1 for byte strings.
        nullable: whether each row has a marker byte for null.
        values: the values, or None if `strings` has them or there are none.
        strings: byte strings.
        valid: bool[n], None if nothing is null.
    """

    width: int
    nullable: bool
    values: np.ndarray | None = None
    strings: Keys | None = None
    valid: np.ndarray | None = None


class KeyOverflow(DataError):
    """Keys are too long.

    Attributes:
        rows: int64 row numbers; empty if all keys together are too long.
    """

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(f"{len(rows)} keys are longer than {KEY_BYTES_MAX} bytes")
        self.rows = rows

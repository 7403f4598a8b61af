"""What a kernel offers: the hot operations on byte keys, front-coded runs and integer columns.

A kernel is a module with the functions of `Kernel`. There are two, of one contract: the native one, and the
numpy twin, which is its oracle in the tests and takes its place where there is no compiler.

Owns: the shapes that both agree on. Refuses to know: column types, aggregates, compression, the tree.

Invariants of every function: read-only inputs; no byte outside a buffer is read or written, whatever the
content of untrusted runs after `check_run`; heavy loops run without the GIL; ids, orders and maps are int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

import numpy as np

from elfmesh.errors import DataError

KEY_BYTES_MAX = 65_535
"""The longest key: lengths in runs take at most two bytes."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Byte strings: key i is data[offsets[i] : offsets[i + 1]].

    Attributes:
        offsets: int32[n + 1], ascending; need not begin at 0.
        data: uint8, at least offsets[n] long.
    """

    offsets: np.ndarray
    data: np.ndarray

    def __len__(self) -> int:
        """How many keys."""
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Run:
    """Strictly ascending keys (by unsigned bytes), front-coded.

    Attributes:
        rows: number of keys.
        key_bytes: sum of their whole lengths, which is what decoding takes.
        wide: whether lengths take two bytes (little-endian) instead of one; needed when one is over 255.
        data: uint8: for every key the length it shares with the key before (exactly; 0 for the first), then
            for every key the length of its rest, then all rests.
    """

    rows: int
    key_bytes: int
    wide: bool
    data: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of the coded keys."""
        return int(self.data.nbytes)


IntPart: TypeAlias = tuple[int, int, int, bytes | memoryview]
"""Integers as byte planes: rows, width, base, and width * rows bytes: the lowest byte of each integer less
the base, then the next of each, and so on. A width of 0 says that all are the base."""


class FieldKind(IntEnum):
    """What a field of a row holds; all are 0 before anything was added.

    COUNT: how many rows. SUM: of int64 values, wrapping. FLOAT_SUM: of floats, exactly: 128 bits in two's
    complement over two words, the lower one first, in units of 2**lowest. The others hold the extreme
    of int64 values or of the ranks of floats (`kernel.ranks`), as an unsigned number: that value xor `FLIPS`.
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
"""What makes of an int64 an unsigned number whose maximum is the extreme."""

Field: TypeAlias = tuple[FieldKind, int, np.ndarray | None, int]
"""A kind, the first word in the row, the int64 values (of floats their bits; None to count), and `lowest`."""

ANY_FLOAT = -1
"""Instead of a number of digits: floats that are no decimals."""


@dataclass(frozen=True, slots=True)
class ShortSums:
    """Exact sums in short; see `elfmesh.cbt.codec.nearsum`.

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


class HotTable(Protocol):
    """A hash table from key bytes to dense row ids 0, 1, 2, ... in the order of first appearance.

    The hash of its index is keyed by a seed of the process, so that no sender can choose keys that collide.
    """

    @property
    def rows(self) -> int:
        """Keys in it."""
        ...

    @property
    def key_bytes(self) -> int:
        """Sum of their lengths."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held: index, offsets, key bytes, with their slack."""
        ...

    def upsert(self, keys: Keys) -> np.ndarray:
        """int64[n]: the id of every key, new ones added. Nothing is added if it raises.

        Raises:
            ValueError: a key is longer than KEY_BYTES_MAX, or the key bytes would pass 2**31 - 1.
        """
        ...

    def keys(self) -> Keys:
        """A copy of all keys in the order of their ids."""
        ...

    def order(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Kernel.sort_keys`, of all keys of the table, without copying them."""
        ...

    def runs(self, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        """See `Kernel.front_code`."""
        ...

    def clear(self) -> None:
        """Forget all keys; keeps the memory for the next ones."""
        ...


class Kernel(Protocol):
    """The operations. See the module's invariants."""

    def table(self, seed: int) -> HotTable:
        """A new, empty hot table."""
        ...

    def hash_keys(self, keys: Keys) -> np.ndarray:
        """uint64[n], the placement hash: bit for bit the same on every machine, its top bits well mixed."""
        ...

    def sort_keys(self, keys: Keys, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """Order distinct keys by (top `bits` of the placement hash, key bytes); 0 <= bits <= 16.

        Returns:
            int64[n] order, and int64[2**bits + 1] cuts of it, one part per value of the top bits.
        """
        ...

    def front_code(self, keys: Keys, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        """One run per part: part p holds the keys at order[cuts[p] : cuts[p + 1]], which ascend."""
        ...

    def merge_runs(self, runs: Sequence[Run]) -> tuple[Run, list[np.ndarray]]:
        """All keys of 1..4096 runs as one run, and per run int64[rows]: the row of each of its keys there."""
        ...

    def partition_run(self, run: Run, skip: int, bits: int) -> tuple[list[Run], np.ndarray]:
        """Split a run by bits [skip, skip + bits) of the placement hash, counted from the top.

        Returns:
            2**bits runs (empty ones among them), and int64[rows]: the source rows, run by run.
        """
        ...

    def pack_bits(self, run: Run) -> bytes | None:
        """The bytes of a run with few, evenly used values in a few bits each, as `unpack_bits` takes them.

        None where an entropy coder would take a ninth less, by a sample; and of a wide run.
        """
        ...

    def unpack_bits(self, rows: int, packed: bytes | memoryview) -> bytes:
        """The data of a run of so many rows again.

        Raises:
            ValueError: the lengths do not fit.
        """
        ...

    def decode_run(self, run: Run) -> Keys:
        """All keys; offsets begin at 0."""
        ...

    def check_run(self, rows: int, wide: bool, data: np.ndarray, key_bytes_max: int) -> Run:
        """A run from outside, made sure of: lengths fit the bytes and each other, keys ascend strictly.

        Raises:
            ValueError: it is no run, or unfolds to more than key_bytes_max.
        """
        ...

    def encode_keys(self, columns: Sequence[KeyColumn], rows: int) -> Keys:
        """Key bytes of typed columns, row by row; the format is written in `elfmesh.cbt.keys`.

        Raises:
            KeyOverflow: keys longer than KEY_BYTES_MAX, all of which it names, or more than 2 GiB of them.
        """
        ...

    def decode_keys(self, keys: Keys, shape: Sequence[tuple[int, bool]]) -> list[KeyColumn]:
        """The inverse, by (width, nullable) per column.

        Raises:
            ValueError: the keys are not of this shape.
        """
        ...

    def count(self, ids: np.ndarray, out: np.ndarray) -> None:
        """out[id] += 1 for every id; out is int64."""
        ...

    def add(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        """out[id] += value, int64 that wraps; the caller makes sure that it cannot."""
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
        """out[id] = max(out[id], rank of value), likewise."""
        ...

    def add_floats(self, ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> int:
        """Add float64 values exactly to int64[groups, 1 + limbs] in C order.

        Column 0 counts what was added, column 1 + j is limb lowest + j: a value touches one place in memory.

        Limbs as in `elfmesh.cbt.sums.floatsum`: signed multiples of 2**(32 * limb), each value spread over at
        most three, every piece below 2**32 in magnitude. The caller carries before 2**30 additions.

        Returns:
            How many values were added: all, or up to the first that is not finite or needs a limb outside the
            columns.
        """
        ...

    def add_fields(self, ids: np.ndarray, out: np.ndarray, fields: Sequence[Field]) -> None:
        """Add to several fields of int64[groups, width] rows in C order: see FieldKind.

        A value touches one place in memory. The caller makes sure that no sum passes its words.
        """
        ...

    def take_rows(self, source: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """int64[width, len(rows)]: these rows of int64[groups, width], column by column."""
        ...

    def span_floats(self, values: np.ndarray) -> tuple[int, int] | None:
        """Exponents (lowest, top): float64 values are multiples of 2**lowest, in magnitude below 2**top.

        Top is 1025 if some are not finite. None if all are zero.
        """
        ...

    def pack_ints(
        self, values: np.ndarray, cuts: np.ndarray, order: np.ndarray | None = None
    ) -> tuple[int, int, list[bytes]]:
        """Byte planes of int64 values: width and base for all, and a chunk per part.

        Args:
            values: int64[n]; width and base are the least that hold all of them, a base of 0 being preferred.
            cuts: int64[parts + 1], ascending; part p is rows cuts[p] to cuts[p + 1] of `order`.
            order: int64, rows of `values`; None: as they stand.
        """
        ...

    def unpack_ints(self, parts: Sequence[IntPart]) -> np.ndarray:
        """int64: the integers of all parts, one behind the other, sums with the base wrapping.

        Raises:
            ValueError: planes do not fit their rows.
        """
        ...

    def scale_floats(self, values: np.ndarray) -> tuple[np.ndarray, int] | None:
        """int64 and digits, such that values == int64 / 10**digits bit for bit; None if that is not so.

        32 values decide where to begin to look, at most 6 digits are looked for.
        """
        ...

    def short_sums(self, limbs: Mapping[int, np.ndarray]) -> ShortSums | None:
        """1 to 12 limbs as in `elfmesh.cbt.sums.floatsum` in short; None if what is left is too much."""
        ...

    def give_back(self) -> bool:
        """Return to the system what the allocator keeps of freed memory; False if there is no way."""
        ...

    def short_units(self, near: np.ndarray, digits: int, unit: int) -> np.ndarray:
        """int64: the floats near / 10**digits (or those of these bits) in units of 2**unit, mod 2**64.

        Each is a multiple of the unit; `unit` is within +-4096.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column on its way into or out of key bytes.

    Attributes:
        width: bytes of the value: 8, 4 or 1 (int64, int32 or uint8 values), 16 (int64[n, 2], low and high
            half), 0 for a column that is null everywhere, or -1 for byte strings.
        nullable: whether a marker byte says of each row if it is null.
        values: the values, or None where `strings` has them or there are none.
        strings: byte strings.
        valid: bool[n], None if nothing is null.
    """

    width: int
    nullable: bool
    values: np.ndarray | None = None
    strings: Keys | None = None
    valid: np.ndarray | None = None


class KeyOverflow(DataError):
    """Keys that are too long.

    Attributes:
        rows: int64: which ones; empty if it is all of them together.
    """

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(f"{len(rows)} keys are longer than {KEY_BYTES_MAX} bytes")
        self.rows = rows

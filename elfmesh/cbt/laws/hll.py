"""hll: approximate count of distinct values, equal to Apache DataSketches' HLL_8 with 4,096 registers.

A value is hashed to a coupon: 26 bits of address, 6 bits of value. Up to 384 distinct coupons are stored
unchanged; more are converted to registers, each the greatest value of its address. Both depend only on the
set of values, and not on their order or the shape of the tree. The library's running estimate depends on the
order, and is omitted. `finish` returns what Spark's `hll_sketch_agg(x, 12)` returns for a merged sketch.

Owns the coupons and registers of all groups. Does not compute estimates (`sketches.hll_estimates`).

Deviation: an integral float counts as the equal integer, because a column may change from integer to float.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import (
    byte_layout,
    decimal_words,
    is_bytes,
    to_int64,
    valid_mask,
)
from elfmesh.cbt.laws.base import Accumulator, Law, State, Values, one_column
from elfmesh.cbt.laws.blobs import check_binary, from_lengths, lengths_of
from elfmesh.cbt.laws.murmur import hash_strings, hash_words

LOG_REGISTERS = 12
REGISTERS = 1 << LOG_REGISTERS
COUPONS_MAX = 384
"""Maximum number of coupons, as in the library: three quarters of a hash set of 2**(LOG_REGISTERS - 3)
places."""

_LIST_MAX = 7
_ADDRESS_BITS = 26
_VALUE_MAX = 63
_PENDING_MIN = 1 << 16
_FAMILY, _VERSION, _HLL_8 = 7, 1, 2
_COMPACT, _OUT_OF_ORDER, _EMPTY = 8, 16, 4


class HyperLogLog(Law):
    """Law with a standard error of 1.6 % and at most 4 KiB per group."""

    kind, takes_narrower = "hll", True

    def value_type(self, values: Values, name: str) -> pa.DataType:
        return one_column(values).type

    def accumulator(self, data_type: pa.DataType) -> Accumulator:
        """Return an accumulator with 8 bytes per coupon, or 4 KiB."""
        return HyperLogLogAccumulator(data_type)

    def promote(self, state: State, data_type: pa.DataType) -> State:
        """Keep the state, because equal values of both types have equal coupons."""
        return State(state.kind, data_type, state.parts)

    def finish(self, state: State, rows: int) -> pa.Array:
        """Return sketches in Apache DataSketches' format, binary."""
        lengths, data = lengths_of(state.parts["sketch"])
        ends = np.cumsum(lengths)
        return pa.array(
            [
                _sketch(data[end - length : end])
                for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
            ],
            pa.binary(),
        )

    def check(self, state: State, rows: int) -> None:
        if set(state.parts) != {"sketch"}:
            raise ValueError(f"an hll has columns {sorted(state.parts)}")
        column = check_binary(state.parts["sketch"], "an hll sketch")
        _, (coupons, owners), registers = _unpack(column)
        if len(registers) and int(registers.max()) > _VALUE_MAX:
            raise ValueError("an hll register is over 63")
        if ((coupons >> _ADDRESS_BITS) == 0).any():
            raise ValueError("an hll coupon without a value")
        if ((coupons[1:] <= coupons[:-1]) & (owners[1:] == owners[:-1])).any():
            raise ValueError("hll coupons do not ascend")
        if len(owners) and int(np.bincount(owners).max()) > COUPONS_MAX:
            raise ValueError("too many hll coupons")


class HyperLogLogAccumulator(Accumulator):
    """Sorted coupons with a tail of new ones, and registers of the groups that have many."""

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.clear()

    def add(self, values: Values, ids: np.ndarray, groups: int) -> None:
        """Add hashes to the tail; occasionally the tail is sorted and known coupons are dropped."""
        column = one_column(values)
        if (valid := valid_mask(column)) is not None:
            column, ids = column.filter(pa.array(valid)), ids[valid]
        if not pa.types.is_null(column.type):
            coupons, counted = coupons_of(column)
            self._add_coupons(coupons, ids if counted is None else ids[counted], groups)

    def merge(self, state: State, ids: np.ndarray, groups: int) -> None:
        """Unite coupons, and take the greatest registers."""
        dense, (coupons, owners), registers = _unpack(state.parts["sketch"])
        self._add_coupons(coupons, ids[owners], groups)
        if len(dense):
            self._make_dense(np.unique(ids[dense]))
            for row, group in enumerate(ids[dense].tolist()):
                held = self._registers[self._dense_row[group]]
                np.maximum(held, registers[row], out=held)

    def freeze(self, groups: int) -> State:
        """Return the states. Cost: a sort of new coupons, a pass over all."""
        self._settle()
        owners, coupons = self._sorted >> 32, (self._sorted & 0xFFFFFFFF).astype(np.uint32)
        lengths = np.bincount(owners, minlength=groups)[:groups] * 4
        lengths[np.fromiter(self._dense_row, np.int64, len(self._dense_row))] = REGISTERS
        starts = np.cumsum(lengths) - lengths
        out = np.zeros(int(lengths.sum()), np.uint8)
        firsts = np.searchsorted(owners, np.arange(groups))
        out.view("<u4")[starts[owners] // 4 + np.arange(len(owners)) - firsts[owners]] = coupons
        for group, row in self._dense_row.items():
            out[starts[group] : starts[group] + REGISTERS] = self._registers[row]
        return State("hll", self.type, {"sketch": from_lengths(lengths, out)})

    def clear(self) -> None:
        self._sorted = np.zeros(0, np.int64)
        self._pending: list[np.ndarray] = []
        self._pending_count = 0
        self._dense_row: dict[int, int] = {}
        self._registers = np.zeros((0, REGISTERS), np.uint8)
        # Row of the registers by group, for looking up many groups at once.
        self._row_of = np.zeros(0, np.int32)

    def promote(self, data_type: pa.DataType) -> None:
        """Keep the state, because equal values of both types have equal coupons."""
        self.type = data_type

    @property
    def nbytes(self) -> int:
        fixed = self._sorted.nbytes + self._registers.nbytes + self._row_of.nbytes
        return int(fixed) + 8 * self._pending_count

    def _add_coupons(self, coupons: np.ndarray, ids: np.ndarray, groups: int) -> None:
        if len(self._row_of) < groups:
            grown = np.full(max(groups, len(self._row_of) * 3 // 2), -1, np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        if self._dense_row:
            rows = self._row_of[ids]
            dense = rows >= 0
            self._raise_registers(rows[dense], coupons[dense])
            ids, coupons = ids[~dense], coupons[~dense]
        if len(ids):
            self._pending.append((ids << np.int64(32)) | coupons.astype(np.int64))
            self._pending_count += len(ids)
            if self._pending_count > max(_PENDING_MIN, len(self._sorted)):
                self._settle()

    def _raise_registers(self, rows: np.ndarray, coupons: np.ndarray) -> None:
        cells = rows.astype(np.int64) * REGISTERS + (coupons & (REGISTERS - 1)).astype(np.int64)
        values = (coupons >> _ADDRESS_BITS).astype(np.uint8)
        flat = self._registers.reshape(-1)
        news = np.flatnonzero(values > flat[cells])
        np.maximum.at(flat, cells[news], values[news])

    def _settle(self) -> None:
        """Sort new coupons into the others; groups with too many get registers. Cost: a sort, amortised."""
        if not self._pending:
            return
        merged = np.unique(np.concatenate([self._sorted, *self._pending]))
        self._pending, self._pending_count = [], 0
        self._sorted = merged
        owners = merged >> 32
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        counts = np.diff(starts, append=len(owners))
        self._make_dense(owners[starts[counts > COUPONS_MAX]])

    def _make_dense(self, group_numbers: np.ndarray) -> None:
        new = [group for group in group_numbers.tolist() if group not in self._dense_row]
        if not new:
            return
        self._settle()  # may itself convert some groups to registers
        new = [group for group in new if group not in self._dense_row]
        rows = len(self._registers)
        self._registers = np.concatenate([self._registers, np.zeros((len(new), REGISTERS), np.uint8)])
        for row, group in enumerate(new, rows):
            self._dense_row[group] = row
            self._row_of[group] = row
        row_of = self._row_of[self._sorted >> 32]
        moved = row_of >= 0
        self._raise_registers(row_of[moved], (self._sorted[moved] & 0xFFFFFFFF).astype(np.uint32))
        self._sorted = self._sorted[~moved]


def coupons_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Return uint32 coupons of canonical values without nulls, and the rows they belong to, None for all."""
    h1, h2, counted = hashes_of(values)
    zeros = 63 - _floor_log2(h2)
    coupons = (h1 & np.uint64((1 << _ADDRESS_BITS) - 1)).astype(np.uint32)
    coupons |= (np.minimum(zeros, 62) + 1).astype(np.uint32) << np.uint32(_ADDRESS_BITS)
    return coupons, counted


def hashes_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return two uint64 hashes of canonical values without nulls, and the rows they belong to, None for all.

    Strings and binary are hashed as bytes (the empty one is not counted, as in DataSketches), integers, times
    and booleans as 64-bit integers, floats by their bits unless integral, decimals as 16 bytes.
    """
    counted = None
    if is_bytes(values.type):
        offsets, data = byte_layout(values)
        h1, h2 = hash_strings(offsets, data)
        if not (lengths := np.diff(offsets)).all():
            counted = np.flatnonzero(lengths)
            h1, h2 = h1[counted], h2[counted]
    elif pa.types.is_decimal(values.type):
        text = np.ascontiguousarray(decimal_words(values)).view(np.uint8).reshape(-1)
        h1, h2 = hash_strings(np.arange(len(values) + 1) * 16, text)
    else:
        words = to_int64(values)[0]
        if pa.types.is_floating(values.type):
            words = _integral(words)
        h1, h2 = hash_words(words.view(np.uint64))
    return h1, h2, counted


def _integral(bits: np.ndarray) -> np.ndarray:
    floats = bits.view(np.float64)
    whole = (np.abs(floats) < 2.0**63) & (floats == np.floor(floats))
    with np.errstate(invalid="ignore"):
        return np.where(whole, floats.astype(np.int64), bits)


def _floor_log2(words: np.ndarray) -> np.ndarray:
    """Return int64[n], the position of the highest bit, -1 for zero."""
    high = (words >> np.uint64(32)).astype(np.float64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 31, np.frexp(low)[1] - 1).astype(np.int64)


def _unpack(
    column: pa.Array,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the rows with registers; coupons and their rows; registers [of these rows, 4096]."""
    lengths, data = lengths_of(column)
    if (lengths % 4).any() or (lengths[lengths != REGISTERS] > 4 * COUPONS_MAX).any():
        raise ValueError("an hll sketch of a wrong length")
    dense = np.flatnonzero(lengths == REGISTERS)
    owners = np.repeat(np.arange(len(lengths)), lengths // 4)
    sparse = lengths[owners] != REGISTERS
    words = data.view("<u4")
    return dense, (words[sparse], owners[sparse]), words[~sparse].view(np.uint8).reshape(-1, REGISTERS)


def _sketch(held: np.ndarray) -> bytes:
    if len(held) != REGISTERS:
        count = len(held) // 4
        mode = 0 if count <= _LIST_MAX else 1
        flags = _COMPACT | (_EMPTY if count == 0 else 0)
        head = bytes(
            [2 + mode, _VERSION, _FAMILY, LOG_REGISTERS, 3 if mode == 0 else _set_bits(count), flags]
        )
        head += bytes([count if mode == 0 else 0, mode | _HLL_8 << 2])
        return head + (count.to_bytes(4, "little") if mode else b"") + held.tobytes()
    histogram = np.bincount(held, minlength=_VALUE_MAX + 1)
    powers = histogram * 2.0 ** -np.arange(_VALUE_MAX + 1)
    head = bytes([10, _VERSION, _FAMILY, LOG_REGISTERS, 0, _COMPACT | _OUT_OF_ORDER, 0, 2 | _HLL_8 << 2])
    sums = np.array([0.0, powers[:32].sum(), powers[32:].sum()], "<f8").tobytes()
    counters = int(histogram[0]).to_bytes(4, "little") + bytes(4)
    return head + sums + counters + held.tobytes()


def _set_bits(count: int) -> int:
    """Return log2 of the hash set's size, which doubles when more than three quarters are used."""
    bits = 5
    while 4 * count > 3 << bits:
        bits += 1
    return bits

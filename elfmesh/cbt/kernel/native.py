"""Kernel in C: this module allocates the outputs of `_native` and checks types before each call.

Contract: `elfmesh.cbt.kernel.protocol.Kernel`. The algorithms are described in the files of `csrc/`. All
loops run without the GIL. The import fails if `_native` was not built, or was built from other sources.

Safety: every buffer is checked against its offsets and lengths before it is used, so that no Keys or Run can
cause a read or write outside, whatever its origin. Only `check_run` checks that the keys of a Run ascend;
merging an invalid Run is memory-safe but may give wrong results. Inputs must not change during a call. The
index of a hot table is keyed by its seed and by the interpreter's secret of this process (that of
`hash(bytes)`), so keys that are chosen without knowing it collide no more than random ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from elfmesh.cbt.kernel import _native
from elfmesh.cbt.kernel.protocol import (
    KEY_BYTES_MAX,
    Field,
    FieldKind,
    IntPart,
    KeyColumn,
    KeyOverflow,
    Keys,
    Run,
    ShortSums,
)

_INTERFACE = 5
if _native.INTERFACE != _INTERFACE:
    raise ImportError(
        f"the native kernel was built from other sources ({_native.INTERFACE}, not {_INTERFACE})"
    )

_SECRET = hash(b"the hot tables of this process")
_SEED_MASK = (1 << 64) - 1
_BYTES_MAX = (1 << 31) - 1
_PLACE_BITS_MAX = 16
_RUNS_MAX = 4096
_NONE = np.zeros(0, np.uint8)
_VALUE_TYPES: dict[int, type[np.generic]] = {1: np.uint8, 4: np.int32, 8: np.int64, 16: np.int64}

_EMPTY = Run(0, 0, False, _NONE)

_CodedRun: TypeAlias = tuple[int, int, bool, bytes]


class HotTable:
    """See `protocol.HotTable`.

    If two threads use one table at the same time, the later one gets a RuntimeError.
    """

    __slots__ = ("_table",)

    def __init__(self, seed: int, key_bytes_max: int = _BYTES_MAX) -> None:
        self._table = _native.Table((seed ^ _SECRET) & _SEED_MASK, key_bytes_max)

    @property
    def rows(self) -> int:
        return self._table.rows

    @property
    def key_bytes(self) -> int:
        return self._table.key_bytes

    @property
    def nbytes(self) -> int:
        """Return the bytes of index, offsets, hashes and key bytes, including unused capacity."""
        return self._table.nbytes

    @property
    def probes(self) -> int:
        """Return the slots of the index that were examined beyond one per key: the cost of collisions."""
        return self._table.probes

    def upsert(self, keys: Keys) -> np.ndarray:
        """See `protocol.HotTable.upsert`. Cost: about 10 ns per key while the table is in the cache."""
        ids = np.empty(len(keys), np.int64)
        self._table.upsert(*_parts(keys), ids)
        return ids

    def keys(self) -> Keys:
        keys = Keys(np.empty(self.rows + 1, np.int32), np.empty(self.key_bytes, np.uint8))
        self._table.copy_keys(keys.offsets, keys.data)
        return keys

    def order(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """See `protocol.Kernel.sort_keys`, for all keys of the table, without copying them."""
        order, cuts = _order_arrays(self.rows, bits)
        self._table.order(bits, order, cuts)
        return order, cuts

    def runs(self, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
        return [_run(run) for run in self._table.runs(_of(order, np.int64), _of(cuts, np.int64))]

    def clear(self) -> None:
        """Remove all keys; keeps the memory."""
        self._table.clear()


def table(seed: int) -> HotTable:
    return HotTable(seed)


def _of(array: np.ndarray, data_type: type[np.generic]) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype != data_type:
        raise TypeError(f"an array of {array.dtype} where {np.dtype(data_type)} is due")
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, data_type, order="C")


def _into(array: np.ndarray) -> np.ndarray:
    """Return an int64 array for output by C, which must not be a copy."""
    if array.dtype != np.int64 or not array.flags.c_contiguous or not array.flags.aligned:
        raise TypeError("sums are kept in an int64 array in C order")
    return array


def _parts(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    return _of(keys.offsets, np.int32), _of(keys.data, np.uint8)


def _run(coded: _CodedRun) -> Run:
    rows, key_bytes, wide, data = coded
    if rows == 0:
        return _EMPTY
    return Run(rows, key_bytes, wide, np.frombuffer(data, np.uint8))


def _order_arrays(rows: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    if not 0 <= bits <= _PLACE_BITS_MAX:
        raise ValueError(f"keys are placed by 0 to {_PLACE_BITS_MAX} bits, not {bits}")
    return np.empty(rows, np.int64), np.empty((1 << bits) + 1, np.int64)


def hash_keys(keys: Keys) -> np.ndarray:
    """See `Kernel.hash_keys`. Cost: about 10 ns per short key."""
    hashes = np.empty(len(keys), np.uint64)
    _native.hash_keys(*_parts(keys), hashes)
    return hashes


def sort_keys(keys: Keys, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """See `Kernel.sort_keys`. Cost: 50 to 130 ns per key, and 18 bytes of memory per key."""
    order, cuts = _order_arrays(len(keys), bits)
    _native.sort_keys(*_parts(keys), bits, order, cuts)
    return order, cuts


def front_code(keys: Keys, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
    """See `Kernel.front_code`. Raises ValueError for a part whose keys do not ascend."""
    return [_run(run) for run in _native.front_code(*_parts(keys), _of(order, np.int64), _of(cuts, np.int64))]


def merge_runs(runs: Sequence[Run]) -> tuple[Run, list[np.ndarray]]:
    """See `Kernel.merge_runs`. Cost: about 20 ns per key for two runs, 30 ns for sixteen."""
    if not 1 <= len(runs) <= _RUNS_MAX:
        raise ValueError(f"{len(runs)} runs to merge, at most {_RUNS_MAX} at once")
    if len(runs) == 1:
        return runs[0], [np.arange(runs[0].rows)]
    maps = [np.empty(run.rows, np.int64) for run in runs]
    merged = _native.merge_runs(
        [
            (run.rows, run.wide, _of(run.data, np.uint8), places)
            for run, places in zip(runs, maps, strict=True)
        ]
    )
    return _run(merged), maps


def partition_run(run: Run, skip: int, bits: int) -> tuple[list[Run], np.ndarray]:
    """See `Kernel.partition_run`. Cost: decodes all keys; about 40 ns per key."""
    order, cuts = _order_arrays(run.rows, bits)
    keys = decode_run(run)
    _native.place_rows(keys.offsets, keys.data, skip, bits, order, cuts)
    return front_code(keys, order, cuts), order


def pack_bits(run: Run) -> bytes | None:
    """See `Kernel.pack_bits`. Cost: a sample of a thousand bytes; 0.3 ns per byte if it is worthwhile."""
    return None if run.wide else _native.pack_bits(run.rows, _of(run.data, np.uint8))


def unpack_bits(rows: int, packed: bytes | memoryview) -> bytes:
    """See `Kernel.unpack_bits`. Cost: 0.2 ns per byte."""
    return _native.unpack_bits(rows, packed)


def decode_run(run: Run) -> Keys:
    keys = Keys(np.empty(run.rows + 1, np.int32), np.empty(run.key_bytes, np.uint8))
    _native.decode_run(run.rows, run.wide, _of(run.data, np.uint8), keys.offsets, keys.data)
    return keys


def check_run(rows: int, wide: bool, data: np.ndarray, key_bytes_max: int) -> Run:
    """See `Kernel.check_run`. Cost: one pass, and memory for one key."""
    data = _of(data, np.uint8)
    return Run(rows, _native.check_run(rows, wide, data, min(key_bytes_max, _BYTES_MAX)), wide, data)


def encode_keys(columns: Sequence[KeyColumn], rows: int) -> Keys:
    """See `Kernel.encode_keys`. Cost: two passes over each column."""
    given = [_given(column) for column in columns]
    sizes = np.empty(rows, np.int64)
    _native.encoded_sizes(given, sizes)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if rows else 0
    too_long = np.flatnonzero(sizes > KEY_BYTES_MAX)
    if len(too_long) or total > _BYTES_MAX:
        raise KeyOverflow(too_long)
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = ends
    data = np.empty(total, np.uint8)
    _native.encode_keys(given, offsets, data)
    return Keys(offsets, data)


def _given(column: KeyColumn) -> _native.KeyColumnIn:
    """Return the column's buffers, empty ones for those that it does not have."""
    values, offsets, data, valid = _NONE, _NONE, _NONE, _NONE
    if column.values is not None and column.width > 0:
        values = _of(column.values, _VALUE_TYPES[column.width])
    if column.strings is not None:
        offsets, data = _parts(column.strings)
    if column.valid is not None:
        valid = _of(column.valid, np.bool_)
    return column.width, column.nullable, values, offsets, data, valid


def decode_keys(keys: Keys, shape: Sequence[tuple[int, bool]]) -> list[KeyColumn]:
    """See `Kernel.decode_keys`. Cost: one pass per column."""
    offsets, data = _parts(keys)
    rows = len(keys)
    total = int(offsets[-1]) - int(offsets[0])
    taken = []
    for width, nullable in shape:
        if width not in _VALUE_TYPES and width not in (0, -1):
            raise ValueError(f"a key column of {width} bytes")
        if width == 0 and not nullable:
            raise ValueError("a key column without values has no marker of nulls")
        values = np.empty((rows, 2) if width == 16 else rows, _VALUE_TYPES[width]) if width > 0 else _NONE
        strings = (np.empty(rows + 1, np.int32), np.empty(total, np.uint8)) if width == -1 else (_NONE, _NONE)
        taken.append((width, nullable, values, *strings, np.empty(rows if nullable else 0, np.bool_)))
    _native.decode_keys(offsets, data, taken)
    return [_taken(column) for column in taken]


def _taken(column: _native.KeyColumnIn) -> KeyColumn:
    width, nullable, values, offsets, data, valid = column
    nulls = valid if nullable and not valid.all() else None
    if width == -1:
        return KeyColumn(width, nullable, None, Keys(offsets, _shrunk(data, int(offsets[-1]))), nulls)
    return KeyColumn(width, nullable, values if width else None, None, nulls)


def _shrunk(data: np.ndarray, used: int) -> np.ndarray:
    """Return the used bytes, copied if keeping the rest would waste memory."""
    return data[:used] if 4 * used >= 3 * len(data) else data[:used].copy()


def count(ids: np.ndarray, out: np.ndarray) -> None:
    """See `Kernel.count`.

    Raises:
        IndexError: An id is outside `out`; nothing was added. The same holds for the other functions by id.
    """
    _native.count(_of(ids, np.int64), _into(out))


def add(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    _native.add(_of(ids, np.int64), _of(values, np.int64), _into(out))


def least(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    _native.least(_of(ids, np.int64), _of(values, np.int64), _into(out))


def greatest(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    _native.greatest(_of(ids, np.int64), _of(values, np.int64), _into(out))


def least_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    _native.least_floats(_of(ids, np.int64), _of(values, np.float64), _into(out))


def greatest_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    _native.greatest_floats(_of(ids, np.int64), _of(values, np.float64), _into(out))


def add_floats(ids: np.ndarray, values: np.ndarray, out: np.ndarray, lowest: int) -> int:
    return _native.add_floats(
        _of(ids, np.int64), _of(values, np.float64), _into(out), out.shape[1] - 1, lowest
    )


def add_fields(ids: np.ndarray, out: np.ndarray, fields: Sequence[Field]) -> None:
    """See `Kernel.add_fields`. Cost: one cache line per row, about 1 ns per field."""
    coded = [(int(kind), place, lowest, _of_field(kind, values)) for kind, place, values, lowest in fields]
    _native.add_fields(_of(ids, np.int64), _into(out), out.shape[1], coded)


def _of_field(kind: FieldKind, values: np.ndarray | None) -> np.ndarray:
    return _NONE if kind == FieldKind.COUNT or values is None else _of(values, np.int64)


def take_rows(source: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """See `Kernel.take_rows`. Cost: one cache line per row."""
    width = source.shape[1]
    out = np.empty((width, len(rows)), np.int64)
    _native.take_rows(_of(rows, np.int64), _of(source, np.int64), width, out)
    return out


def span_floats(values: np.ndarray) -> tuple[int, int] | None:
    """See `Kernel.span_floats`. Cost: one pass."""
    return _native.span_floats(_of(values, np.float64))


def pack_ints(
    values: np.ndarray, cuts: np.ndarray, order: np.ndarray | None = None
) -> tuple[int, int, list[bytes]]:
    """See `Kernel.pack_ints`. Cost: a pass over all values and one over those that are written."""
    ordered = order is not None
    return _native.pack_ints(
        _of(values, np.int64),
        ordered,
        _of(order, np.int64) if order is not None else _NONE,
        _of(cuts, np.int64),
    )


def unpack_ints(parts: Sequence[IntPart]) -> np.ndarray:
    """See `Kernel.unpack_ints`. Cost: one pass."""
    out = np.empty(sum(part[0] for part in parts), np.int64)
    _native.unpack_ints(list(parts), out)
    return out


def scale_floats(values: np.ndarray) -> tuple[np.ndarray, int] | None:
    """See `Kernel.scale_floats`. Cost: one division per value and tried number of digits."""
    out = np.empty(len(values), np.int64)
    digits = _native.scale_floats(_of(values, np.float64), out)
    return None if digits < 0 else (out, digits)


def short_sums(limbs: Mapping[int, np.ndarray]) -> ShortSums | None:
    """See `Kernel.short_sums`. Cost: about five passes per limb."""
    columns = [(number, _of(limbs[number], np.int64)) for number in sorted(limbs)]
    rows = len(columns[0][1])
    near, rest = np.empty(rows, np.int64), np.empty(rows, np.int64)
    form = _native.short_sums(columns, near, rest)
    return None if form is None else ShortSums(near, form[0], rest, form[1])


def short_units(near: np.ndarray, digits: int, unit: int) -> np.ndarray:
    """See `Kernel.short_units`. Cost: a division per value."""
    out = np.empty(len(near), np.int64)
    _native.short_units(_of(near, np.int64), digits, unit, out)
    return out


def give_back() -> bool:
    """See `Kernel.give_back`. Cost: a walk over the free memory, one or two milliseconds for 100 MB."""
    return _native.give_back()

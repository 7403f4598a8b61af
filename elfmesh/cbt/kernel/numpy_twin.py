"""The hot operations in numpy and Arrow: the fallback without a compiler, and the oracle of a native kernel.

Contract: `elfmesh.cbt.kernel.Kernel`. Identity is by key bytes (Arrow's dictionary encoding compares them); a
hash only places a key. numpy's scatter loops and Arrow's kernels release the GIL.

Paper: ELF 2.2 ("the system sorts the tuples by hash value ... and partitions the tuples into those receiving
buffers based on the hash value").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, decimal_words, is_bytes, to_int64, valid_mask

_INT64 = np.iinfo(np.int64)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NULL_HASH = np.uint64(0x5851F42D4C957F2D)
_WORD = 8


def hash_rows(keys: Sequence[pa.Array], rows: int, seed: int) -> np.ndarray:
    """See `Kernel.hash_rows`. Cost: one pass over the key bytes, eight at a time."""
    hashes = np.full(rows, _mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF) + _GOLDEN), np.uint64)
    for key in keys:
        column = _hash_column(key)
        hashes = _mix_array((hashes * _GOLDEN) ^ column)
    return hashes


def _mix(value: np.uint64) -> np.uint64:
    return np.uint64(_mix_array(np.array([value], np.uint64))[0])


def _mix_array(words: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every input bit reaches every output bit. Overwrites nothing."""
    words = words ^ (words >> np.uint64(30))
    words *= _MIX_1
    words ^= words >> np.uint64(27)
    words *= _MIX_2
    words ^= words >> np.uint64(31)
    return words


def _hash_column(key: pa.Array) -> np.ndarray:
    data_type = key.type
    if pa.types.is_null(data_type):
        return np.full(len(key), _NULL_HASH, np.uint64)
    if is_bytes(data_type):
        hashes = _hash_bytes(*byte_layout(key))
    elif pa.types.is_decimal128(data_type):
        words = decimal_words(key).view(np.uint64)
        hashes = _mix_array(_mix_array(words[:, 0] + _GOLDEN) ^ words[:, 1])
    else:
        values, _ = to_int64(key)
        if pa.types.is_int64(data_type):
            # Placed as the float it would be promoted to, so that a column that turns float moves no key.
            values = values.astype(np.float64).view(np.int64)
        hashes = _mix_array(values.view(np.uint64) + _GOLDEN)
    valid = valid_mask(key)
    return hashes if valid is None else np.where(valid, hashes, _NULL_HASH)


def _hash_bytes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    hashes = lengths.view(np.uint64) + _GOLDEN
    if len(lengths) == 0:
        return hashes
    base = int(starts[0])
    used = data[base : int(offsets[-1])]
    padded = np.zeros(len(used) + _WORD, np.uint8)
    padded[: len(used)] = used
    # Overlapping little-endian words at every byte; numpy gathers from unaligned arrays.
    words = np.ndarray(len(used) + 1, "<u8", padded, strides=(1,))
    starts -= base
    active = np.flatnonzero(lengths)
    position = 0
    while len(active):
        rest = lengths[active] - position
        word = words[starts[active] + position].astype(np.uint64, copy=False)
        unused_bits = ((_WORD - np.minimum(rest, _WORD)) * 8).view(np.uint64)
        word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> unused_bits
        hashes[active] = _mix_array((hashes[active] * _GOLDEN) ^ word)
        position += _WORD
        active = active[rest > _WORD]
    return _mix_array(hashes)


def group(keys: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, int, tuple[pa.Array, ...]]:
    """See `Kernel.group`. Cost: one hash-table pass per key column, one more per column after the first."""
    if not keys:
        return np.zeros(rows, np.intp), min(rows, 1), ()
    ids, unique = _encode(keys[0])
    groups = len(unique)
    if len(keys) == 1:
        return ids, groups, (unique,)
    # Number pairs (group so far, value of the next column), renumber them densely, go on.
    uniques, chains = [unique], []
    for key in keys[1:]:
        codes, unique = _encode(key)
        width = max(len(unique), 1)
        ids, pairs = _encode(pa.array(ids.astype(np.int64) * width + codes))
        uniques.append(unique)
        chains.append((to_int64(pairs)[0], width))
    groups = len(chains[-1][0])
    taken: list[pa.Array] = []
    place = np.arange(groups)
    for (pairs_of, width), unique in zip(reversed(chains), reversed(uniques[1:]), strict=True):
        previous, code = np.divmod(pairs_of[place], width)
        taken.append(unique.take(pa.array(code)))
        place = previous
    taken.append(uniques[0].take(pa.array(place)))
    return ids, groups, tuple(reversed(taken))


def _encode(key: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Dense codes by value, null being a value, and the values in the order of their codes."""
    if pa.types.is_null(key.type) or len(key) == 0:
        return np.zeros(len(key), np.intp), key[:1]
    # Floats are compared by their (canonical) bits: Arrow's own rules for NaN must not matter.
    as_bits = pa.types.is_floating(key.type)
    encoded = (key.view(pa.int64()) if as_bits else key).dictionary_encode(null_encoding="encode")
    indices = encoded.indices
    codes = np.frombuffer(indices.buffers()[1], np.int32, len(indices), indices.offset * 4).astype(np.intp)
    unique = encoded.dictionary
    return codes, unique.view(key.type) if as_bits else unique


def add(ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """See `Kernel.add`."""
    if groups == 1:
        return np.array([values.sum()], np.int64)
    out = np.zeros(groups, np.int64)
    np.add.at(out, ids, values)
    return out


def least(ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """See `Kernel.least`."""
    out = np.full(groups, _INT64.max, np.int64)
    np.minimum.at(out, ids, values)
    return out


def greatest(ids: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """See `Kernel.greatest`."""
    out = np.full(groups, _INT64.min, np.int64)
    np.maximum.at(out, ids, values)
    return out


def partition(hashes: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See `Kernel.partition`."""
    order = np.argsort(hashes, kind="stable")
    inner = np.searchsorted(hashes[order], bounds, side="left")
    return order, np.concatenate(([0], inner, [len(hashes)])).astype(np.intp)

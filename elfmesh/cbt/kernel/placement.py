"""Where a key goes when keys are split over several trees (PARTITIONS): a hash of typed columns.

It is not the hash of key bytes (`Kernel.hash_keys`): here an integer and the float it equals hash alike, so
that all agents send a group to the same tree, whatever types their own logs gave its columns.

Invariant: bit for bit the same on every machine and in every version; a change is a change of the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, decimal_words, is_bytes, to_int64, valid_mask

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NULL_HASH = np.uint64(0x5851F42D4C957F2D)
_WORD = 8


def hash_rows(keys: Sequence[pa.Array], rows: int, seed: int) -> np.ndarray:
    """uint64[rows], well mixed in its top bits; equal keys hash alike on every machine, in every layout.

    An int64 and a float64 that compare equal hash alike, so promoting a column moves no key.

    Cost: one pass over the key bytes, eight at a time.
    """
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

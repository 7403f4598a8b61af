"""Placement of keys on several trees (PARTITIONS): a hash of typed columns.

It differs from the hash of key bytes (`Kernel.hash_keys`): an integer and the equal float have the same hash,
so that all agents send a group to the same tree, whatever types their logs gave its columns.

Invariant: the same bits on every machine and in every version; a change would change the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import byte_layout, decimal_words, is_bytes, to_int64, valid_mask
from elfmesh.cbt.kernel.numpy_twin.words import GOLDEN, bounds, fold, mix
from elfmesh.cbt.kernel.protocol import Keys

_NULL_HASH = np.uint64(0x5851F42D4C957F2D)


def hash_rows(keys: Sequence[pa.Array], rows: int, seed: int) -> np.ndarray:
    """Return uint64[rows], well mixed in its top bits and equal for equal keys on every machine.

    An int64 and a float64 that compare equal have equal hashes, so promoting a column moves no key.

    Cost: one pass over the key bytes, eight at a time.
    """
    hashes = mix(np.full(rows, seed & 0xFFFFFFFFFFFFFFFF, np.uint64) + GOLDEN)
    for key in keys:
        column = _hash_column(key)
        hashes = mix((hashes * GOLDEN) ^ column)
    return hashes


def _hash_column(key: pa.Array) -> np.ndarray:
    data_type = key.type
    if pa.types.is_null(data_type):
        return np.full(len(key), _NULL_HASH, np.uint64)
    if is_bytes(data_type):
        hashes = _hash_bytes(Keys(*byte_layout(key)))
    elif pa.types.is_decimal128(data_type):
        words = decimal_words(key).view(np.uint64)
        hashes = mix(mix(words[:, 0] + GOLDEN) ^ words[:, 1])
    else:
        values, _ = to_int64(key)
        if pa.types.is_int64(data_type):
            # Hash an integer as the float to which it would be promoted, so that a column that becomes float
            # moves no key.
            values = values.astype(np.float64).view(np.int64)
        hashes = mix(values.view(np.uint64) + GOLDEN)
    valid = valid_mask(key)
    return hashes if valid is None else np.where(valid, hashes, _NULL_HASH)


def _hash_bytes(keys: Keys) -> np.ndarray:
    hashes = bounds(keys)[1].view(np.uint64) + GOLDEN
    fold(keys, hashes)
    return mix(hashes)

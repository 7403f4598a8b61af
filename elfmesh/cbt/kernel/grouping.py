"""Grouping by columns, as the callers had it that do not use the kernel's tables yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt.columns import to_int64


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


def partition(hashes: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See `Kernel.partition`."""
    order = np.argsort(hashes, kind="stable")
    inner = np.searchsorted(hashes[order], bounds, side="left")
    return order, np.concatenate(([0], inner, [len(hashes)])).astype(np.intp)

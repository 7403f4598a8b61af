"""Order of keys by placement hash and bytes: a radix sort by words, from the most significant one."""

from __future__ import annotations

import numpy as np

from elfmesh.cbt.kernel.numpy_twin.words import WORD, bounds, hash_keys, overlapping, words_at
from elfmesh.cbt.kernel.protocol import Keys

BITS_MAX = 16
_HASH_BITS = 64


def sort_keys(keys: Keys, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """See `Kernel.sort_keys`.

    Cost: one sort by words, and another one for each word by which keys still agree.
    """
    if not 0 <= bits <= BITS_MAX:
        raise ValueError(f"keys are placed by 0 to {BITS_MAX} bits, not {bits}")
    starts, lengths = bounds(keys)
    words = overlapping(keys)
    chunks = _chunks(words, starts, lengths, 0)
    order = np.argsort(chunks)
    parts = np.zeros(len(keys), np.uint16)
    if bits:
        parts = (hash_keys(keys) >> np.uint64(_HASH_BITS - bits)).astype(np.uint16)
        order = order[np.argsort(parts[order], kind="stable")]  # numpy uses a radix sort for 16 bits
    cuts = np.zeros((1 << bits) + 1, np.int64)
    np.cumsum(np.bincount(parts, minlength=1 << bits), out=cuts[1:])

    ordered = chunks[order]
    ties = ordered[1:] == ordered[:-1]
    ties &= parts[order][1:] == parts[order][:-1]
    _resolve(words, starts, lengths, order, ties)
    return order, cuts


def _chunks(words: np.ndarray, starts: np.ndarray, lengths: np.ndarray, position: int) -> np.ndarray:
    """Return eight bytes from `position` on as big-endian uint64, so that numbers compare like the bytes."""
    rests = np.maximum(lengths - position, 0)
    out = np.zeros(len(starts), np.uint64)
    present = np.flatnonzero(rests)
    out[present] = words_at(words, starts[present] + position, rests[present])
    return out.byteswap()


def _resolve(
    words: np.ndarray, starts: np.ndarray, lengths: np.ndarray, order: np.ndarray, ties: np.ndarray
) -> None:
    """Order, in place, the stretches of rows that are equal so far; ties[i] joins i and i + 1."""
    position = 0
    places = np.flatnonzero(np.concatenate((ties, [False])) | np.concatenate(([False], ties)))
    new_group = ~np.concatenate(([False], ties))[places]
    while len(places):
        groups = np.cumsum(new_group)
        rows = order[places]
        # Padding makes "a" and "a\0" equal words, so keys that end in this word are ordered by length.
        endings = np.minimum(lengths[rows] - position, WORD + 1)
        position += WORD
        chunks = _chunks(words, starts[rows], lengths[rows], position)
        ranks = np.lexsort((chunks, endings, groups))
        order[places] = rows[ranks]
        groups, endings, chunks = groups[ranks], endings[ranks], chunks[ranks]
        same = (groups[1:] == groups[:-1]) & (endings[1:] > WORD) & (endings[1:] == endings[:-1])
        same &= chunks[1:] == chunks[:-1]
        before, after = np.concatenate(([False], same)), np.concatenate((same, [False]))
        kept = before | after
        places, new_group = places[kept], ~before[kept]

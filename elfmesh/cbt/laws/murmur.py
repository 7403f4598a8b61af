"""MurmurHash3 x64 128 of whole columns, with the seed of Apache DataSketches.

The hash equals that of the sketches in Spark bit for bit, so that sketches of both can be merged.
"""

from __future__ import annotations

import numpy as np

SEED = 9001
SEED_HASH = 0x93CC
"""Hash of the seed in the header of a sketch of DataSketches."""
_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_BLOCK = 16
_WORD = 8
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def hash_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two uint64[n] hashes of the eight little-endian bytes of each uint64."""
    h1 = _mix_low(words) ^ np.uint64(SEED)
    h2 = np.full(len(words), SEED, np.uint64)
    return _finish(h1, h2, np.full(len(words), _WORD, np.uint64))


def hash_strings(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two uint64[n] hashes of byte strings data[offsets[i] : offsets[i + 1]].

    Cost: a pass per 16 bytes.
    """
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    h1 = np.full(len(lengths), SEED, np.uint64)
    h2 = h1.copy()
    used = data[int(offsets[0]) : int(offsets[-1])]
    room = np.zeros(len(used) + 2 * _WORD, np.uint8)
    room[: len(used)] = used
    every = np.ndarray(len(used) + _WORD + 1, "<u8", room, strides=(1,))
    starts -= int(offsets[0])
    position, active = 0, np.flatnonzero(lengths >= _BLOCK)
    while len(active):
        at = starts[active] + position
        low, high = every[at].astype(np.uint64), every[at + _WORD].astype(np.uint64)
        one = _rotate(h1[active] ^ _mix_low(low), 27) + h2[active]
        h1[active] = one = one * np.uint64(5) + np.uint64(0x52DCE729)
        two = _rotate(h2[active] ^ _mix_high(high), 31) + one
        h2[active] = two * np.uint64(5) + np.uint64(0x38495AB5)
        position += _BLOCK
        active = active[lengths[active] - position >= _BLOCK]
    rest = lengths % _BLOCK
    at = starts + lengths - rest
    h2 ^= _mix_high(_head(every, at + _WORD, np.maximum(rest - _WORD, 0)))
    h1 ^= _mix_low(_head(every, at, np.minimum(rest, _WORD)))
    return _finish(h1, h2, lengths.view(np.uint64))


def _head(every: np.ndarray, at: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the first 0 to 8 bytes from a position on, with zeros above."""
    words = every[np.where(count > 0, at, 0)].astype(np.uint64)
    mask = _ALL >> ((_WORD - np.maximum(count, 1)) * 8).astype(np.uint64)
    return np.where(count > 0, words & mask, np.uint64(0))


def _rotate(words: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated


def _mix_low(words: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = _rotate(words * _C1, 31) * _C2
    return mixed


def _mix_high(words: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = _rotate(words * _C2, 33) * _C1
    return mixed


def _finish(h1: np.ndarray, h2: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h1, h2 = h1 ^ lengths, h2 ^ lengths
    h1 = h1 + h2
    h2 = h2 + h1
    h1, h2 = _finalise(h1), _finalise(h2)
    h1 = h1 + h2
    return h1, h2 + h1


def _finalise(words: np.ndarray) -> np.ndarray:
    words = words ^ (words >> np.uint64(33))
    words = words * np.uint64(0xFF51AFD7ED558CCD)
    words ^= words >> np.uint64(33)
    words = words * np.uint64(0xC4CEB9FE1A85EC53)
    words ^= words >> np.uint64(33)
    return words

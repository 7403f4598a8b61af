"""Byte strings as machine words: the placement hash, gathering, and lengths of common prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt.kernel.protocol import Keys

WORD = 8
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_DOUBLE_MANTISSA_BITS = 52
_DOUBLE_BIAS = 1023
_GATHER_BYTES = 1 << 17


def mix(words: np.ndarray) -> np.ndarray:
    """Apply the finaliser of splitmix64: every input bit affects every output bit.

    Does not change the input.
    """
    words = words ^ (words >> np.uint64(30))
    words *= _MIX_1
    words ^= words >> np.uint64(27)
    words *= _MIX_2
    words ^= words >> np.uint64(31)
    return words


def bounds(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Return int64 starts and lengths of all keys."""
    starts = keys.offsets[:-1].astype(np.int64)
    return starts, keys.offsets[1:].astype(np.int64) - starts


def overlapping(keys: Keys) -> np.ndarray:
    """Return the little-endian word at each byte up to the end of the keys, with zeros after the data.

    Cost: a copy of the data only if it has fewer than eight spare bytes at its end.
    """
    end = int(keys.offsets[-1])
    data = np.ascontiguousarray(keys.data)
    if len(data) < end + WORD:
        padded = np.zeros(end + WORD, np.uint8)
        padded[:end] = data[:end]
        data = padded
    return np.ndarray(end + 1, "<u8", data, strides=(1,))  # numpy gathers from unaligned arrays


def words_at(words: np.ndarray, places: np.ndarray, rests: np.ndarray) -> np.ndarray:
    """Return the uint64 words at these positions, with zeros after their `rests` bytes (at least one)."""
    word: np.ndarray = words[places].astype(np.uint64, copy=False)
    unused_bits = ((WORD - np.minimum(rests, WORD)) * 8).view(np.uint64)
    word &= _ALL_BITS >> unused_bits
    return word


def hash_keys(keys: Keys) -> np.ndarray:
    """See `Kernel.hash_keys`. Cost: one pass over the key bytes, eight at a time."""
    _, lengths = bounds(keys)
    hashes = mix(lengths.view(np.uint64) + GOLDEN)
    fold(keys, hashes)
    return mix(hashes ^ (hashes >> np.uint64(32)))


def fold(keys: Keys, hashes: np.ndarray) -> None:
    starts, lengths = bounds(keys)
    words = overlapping(keys)
    active = np.flatnonzero(lengths)
    position = 0
    while len(active):
        rest = lengths[active] - position
        word = words_at(words, starts[active] + position, rest)
        hashes[active] = mix((hashes[active] * GOLDEN) ^ word)
        position += WORD
        active = active[rest > WORD]


def as_array(keys: Keys) -> pa.Array:
    """Return the keys as an Arrow binary array over the same memory."""
    offsets = np.ascontiguousarray(keys.offsets, np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(keys.data))]
    )


def as_keys(array: pa.Array) -> Keys:
    _, offsets, data = array.buffers()
    count = len(array)
    if count == 0:
        return Keys(np.zeros(1, np.int32), np.zeros(0, np.uint8))
    places = np.frombuffer(offsets, np.int32, count + 1, array.offset * 4)
    return Keys(places, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))


def gather(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the concatenated pieces data[start : start + length] as uint8. Cost: some ns per byte."""
    out = np.empty(int(lengths.sum()), np.uint8)
    for begin, end, index in _pieces(starts, lengths):
        np.take(data, index, out=out[begin:end])
    return out


def scatter(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, pieces: np.ndarray) -> None:
    for begin, end, index in _pieces(starts, lengths):
        data[index] = pieces[begin:end]


def _pieces(starts: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the positions of the bytes of all pieces, in sections: begin, end, positions."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    moves = starts - (ends - lengths)
    # The index takes eight times the bytes, so it is made section by section.
    cuts = np.unique(np.append(np.searchsorted(ends, np.arange(0, total, _GATHER_BYTES)), len(ends)))
    for first, stop in pairwise(cuts.tolist()):
        begin = int(ends[first] - lengths[first])
        end = int(ends[stop - 1])
        index = np.repeat(moves[first:stop], lengths[first:stop])
        index += np.arange(begin, end)
        yield begin, end, index


def shared_lengths(keys: Keys, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return int64 lengths of the common prefixes of the keys at rows `left` and `right`."""
    starts, lengths = bounds(keys)
    words = overlapping(keys)
    most = np.minimum(lengths[left], lengths[right])
    shared: np.ndarray = most.copy()
    left, right = starts[left], starts[right]
    active = np.flatnonzero(most)
    position = 0
    while len(active):
        differ = words[left[active] + position] ^ words[right[active] + position]
        found = np.flatnonzero(differ)
        place = position + _first_byte(differ[found])
        rows = active[found]
        shared[rows] = np.minimum(place, most[rows])
        active = active[differ == 0]
        position += WORD
        active = active[most[active] > position]
    return shared


def _first_byte(words: np.ndarray) -> np.ndarray:
    """Return the index of the lowest non-zero byte of non-zero words, as int64."""
    lowest = words & (~words + np.uint64(1))
    bits = lowest.astype(np.float64).view(np.int64)
    places: np.ndarray = ((bits >> np.int64(_DOUBLE_MANTISSA_BITS)) - np.int64(_DOUBLE_BIAS)) >> np.int64(3)
    return places

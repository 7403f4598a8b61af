"""Front-coded runs: coding, decoding, merging, splitting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from elfmesh.cbt.kernel.numpy_twin.order import sort_keys
from elfmesh.cbt.kernel.numpy_twin.words import (
    as_array,
    as_keys,
    bounds,
    gather,
    hash_keys,
    scatter,
    shared_lengths,
)
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Keys, Run

RUNS_MAX = 4096
_NARROW_MAX = 255
_HASH_BITS = 64
_PASSES_MAX = 64
"""Shared bytes that are copied one by one for all keys at once; with more, keys are decoded one by one."""
_EMPTY = Run(0, 0, False, np.zeros(0, np.uint8))


def front_code(keys: Keys, order: np.ndarray, cuts: np.ndarray) -> list[Run]:
    order = np.asarray(order, np.int64)
    starts, lengths = bounds(keys)
    starts, lengths = starts[order], lengths[order]
    shared = np.zeros(len(order), np.int64)
    if len(order):
        shared[1:] = shared_lengths(keys, order[:-1], order[1:])
        first = np.asarray(cuts[:-1], np.int64)
        shared[first[first < len(order)]] = 0
    rests = lengths - shared
    text = gather(keys.data, starts + shared, rests)
    ends = np.concatenate(([0], np.cumsum(rests)))
    return [
        _run(shared[start:stop], rests[start:stop], text[ends[start] : ends[stop]])
        for start, stop in pairwise(np.asarray(cuts).tolist())
    ]


def _run(shared: np.ndarray, rests: np.ndarray, text: np.ndarray) -> Run:
    if len(shared) == 0:
        return _EMPTY
    wide = max(int(shared.max()), int(rests.max())) > _NARROW_MAX
    width = "<u2" if wide else "u1"
    lengths = np.concatenate((shared, rests)).astype(width).view(np.uint8)
    key_bytes = int(shared.sum()) + len(text)
    return Run(len(shared), key_bytes, wide, np.concatenate((lengths, text)))


def _unpack(rows: int, wide: bool, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the int64 lengths of shared prefixes and of rests, and the rests."""
    width = 2 if wide else 1
    lengths = data[: 2 * rows * width].view("<u2" if wide else "u1").astype(np.int64)
    return lengths[:rows], lengths[rows:], data[2 * rows * width :]


def decode_run(run: Run) -> Keys:
    """See `Kernel.decode_run`. Cost: several passes per shared byte, over the keys that share it."""
    shared, rests, text = _unpack(run.rows, run.wide, run.data)
    offsets = np.zeros(run.rows + 1, np.int32)
    np.cumsum(shared + rests, out=offsets[1:])
    if run.rows and shared.max() > _PASSES_MAX:
        return Keys(offsets, _decode_one_by_one(shared, rests, text))
    data = np.empty(run.key_bytes, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    scatter(data, starts + shared, rests, text)
    position = 0
    rows = np.flatnonzero(shared)
    while len(rows):
        # A byte that adjacent keys share equals that of the key before the first of them.
        first = np.empty(len(rows), np.bool_)
        first[0] = True
        np.not_equal(rows[1:], rows[:-1] + 1, out=first[1:])
        sources = (rows[first] - 1)[np.cumsum(first) - 1]
        data[starts[rows] + position] = data[starts[sources] + position]
        position += 1
        rows = rows[shared[rows] > position]
    return Keys(offsets, data)


def _decode_one_by_one(shared: np.ndarray, rests: np.ndarray, text: np.ndarray) -> np.ndarray:
    """Return all key bytes. Cost: one Python step per key."""
    raw, key, begin = text.tobytes(), b"", 0
    keys = []
    for prefix, end in zip(shared.tolist(), np.cumsum(rests).tolist(), strict=True):
        key = key[:prefix] + raw[begin:end]
        begin = end
        keys.append(key)
    return np.frombuffer(b"".join(keys), np.uint8)


def merge_runs(runs: Sequence[Run]) -> tuple[Run, list[np.ndarray]]:
    """See `Kernel.merge_runs`. Cost: a hashing and a sort of all keys."""
    if not 1 <= len(runs) <= RUNS_MAX:
        raise ValueError(f"{len(runs)} runs to merge, at most {RUNS_MAX} at once")
    if len(runs) == 1:
        return runs[0], [np.arange(runs[0].rows)]
    keys = pa.concat_arrays([as_array(decode_run(run)) for run in runs])
    encoded = keys.dictionary_encode()
    unique = as_keys(encoded.dictionary)
    order, cuts = sort_keys(unique, 0)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    (merged,) = front_code(unique, order, cuts)
    ends = np.cumsum([run.rows for run in runs])
    return merged, np.split(rank[np.asarray(encoded.indices)], ends[:-1])


def partition_run(run: Run, skip: int, bits: int) -> tuple[list[Run], np.ndarray]:
    if skip < 0 or not 0 <= bits <= 16 or skip + bits > _HASH_BITS:
        raise ValueError(f"bits [{skip}, {skip + bits}) of a hash of {_HASH_BITS}")
    keys = decode_run(run)
    parts = np.zeros(run.rows, np.uint16)
    if bits:
        moved = hash_keys(keys) << np.uint64(skip)
        parts = (moved >> np.uint64(_HASH_BITS - bits)).astype(np.uint16)
    order = np.argsort(parts, kind="stable")
    cuts = np.zeros((1 << bits) + 1, np.int64)
    np.cumsum(np.bincount(parts, minlength=1 << bits), out=cuts[1:])
    return front_code(keys, order, cuts), order


def check_run(rows: int, wide: bool, data: np.ndarray, key_bytes_max: int) -> Run:
    """See `Kernel.check_run`. Cost: as decoding."""
    if rows < 0 or 2 * rows * (1 + wide) > len(data):
        raise ValueError("a run is too short for its lengths")
    shared, rests, text = _unpack(rows, wide, data)
    lengths = shared + rests
    key_bytes = int(lengths.sum())
    if int(rests.sum()) != len(text):
        raise ValueError("lengths of a run do not add up")
    if key_bytes > min(key_bytes_max, np.iinfo(np.int32).max):
        raise ValueError(f"a run unfolds to {key_bytes} bytes of keys, over the limit of {key_bytes_max}")
    run = Run(rows, key_bytes, wide, data)
    if rows == 0:
        return run
    if int(lengths.max()) > KEY_BYTES_MAX:
        raise ValueError(f"a key of a run is longer than {KEY_BYTES_MAX} bytes")
    if shared[0] or (shared[1:] > lengths[:-1]).any():
        raise ValueError("a key of a run shares more than there is")
    if (rests[1:] == 0).any():
        raise ValueError("keys of a run do not ascend")
    # The first byte of a rest is where a key differs from the previous one: it must be greater there, or the
    # previous key has ended.
    keys = decode_run(run)
    leaving = np.flatnonzero(shared[1:] < lengths[:-1])
    before = keys.data[keys.offsets[leaving] + shared[leaving + 1]]
    after = keys.data[keys.offsets[leaving + 1] + shared[leaving + 1]]
    if (after <= before).any():
        raise ValueError("keys of a run do not ascend")
    return run

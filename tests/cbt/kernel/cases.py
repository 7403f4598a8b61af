"""Keys and runs to test kernels with, and what it means that two results are equal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX, Kernel, Keys, Run

BOUNDARY_SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 254, 255, 256, 257, 511, KEY_BYTES_MAX]


def keys_of(texts: Sequence[bytes], before: bytes = b"", after: bytes = b"") -> Keys:
    """Keys that lie somewhere inside their data."""
    offsets = np.full(len(texts) + 1, len(before), np.int32)
    offsets[1:] += np.cumsum([len(text) for text in texts], dtype=np.int32)
    return Keys(offsets, np.frombuffer(before + b"".join(texts) + after, np.uint8))


def texts_of(keys: Keys) -> list[bytes]:
    raw, offsets = keys.data.tobytes(), keys.offsets.tolist()
    return [raw[start:stop] for start, stop in pairwise(offsets)]


def run_of(kernel: Kernel, texts: set[bytes]) -> Run:
    keys = keys_of(sorted(texts))
    (run,) = kernel.front_code(keys, np.arange(len(keys)), np.array([0, len(keys)]))
    return run


def plain(run: Run) -> tuple[int, int, bool, bytes]:
    return run.rows, run.key_bytes, run.wide, run.data.tobytes()


def broken_bits(dice: random.Random, rows: int, packed: bytes) -> tuple[int, bytes]:
    """A run in bits with wrong bytes, a wrong length or a wrong number of rows; or as it was."""
    data = bytearray(packed)
    for _ in range(dice.randrange(4)):
        data[dice.randrange(dice.choice([28, len(data)]))] = dice.randrange(256)
    if dice.random() < 0.2:
        del data[dice.randrange(len(data)) :]
    return rows + dice.choice([0, 0, 0, 1, -1, 8]), bytes(data)


# Few different bytes, so that keys share prefixes; long repetitions, so that lengths take two bytes.
_short = st.lists(st.sampled_from([b"\x00", b"a", b"b", b"\xff"]), max_size=12).map(b"".join)
_long = st.builds(
    lambda head, size, tail: head + b"x" * size + tail,
    st.sampled_from([b"", b"q"]),
    st.sampled_from([7, 8, 250, 255, 256, 300, 520]),
    _short,
)
key = st.one_of(_short, st.binary(max_size=24), _long)
distinct = st.sets(key, max_size=60)
any_keys = st.lists(key, max_size=80)

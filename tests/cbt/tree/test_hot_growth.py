"""When the root grows instead of being pushed down: what comes is there, or will be once it has grown."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import CompressedBufferTree
from elfmesh.cbt.limits import TreeLimits

ROOM, ROOM_MAX, BATCH = 256, 2_048, 64
LIMITS = TreeLimits(root_rows=ROOM, root_rows_max=ROOM_MAX)


def filled(numbers: np.ndarray) -> CompressedBufferTree:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=LIMITS)
    for start in range(0, len(numbers), BATCH):
        tree.insert(pa.record_batch({"k": pa.array(numbers[start : start + BATCH]).cast(pa.string())}))
    return tree


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keys", [300, 500, 1_000, 1_900])
def test_keys_that_fit_into_the_largest_root_never_leave_it(keys: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, keys, 8 * keys)
    tree = filled(numbers)
    assert tree.depth == 1
    assert tree.rows == len(np.unique(numbers))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keys", [8_000, 100_000])
def test_keys_that_do_not_fit_are_pushed_down_in_small_roots(keys: int, seed: int) -> None:
    """Then a larger root would only take memory."""
    numbers = np.random.default_rng(seed).integers(0, keys, 2 * ROOM)
    assert filled(numbers).depth > 1


def test_keys_that_never_come_again_are_pushed_down_in_small_roots() -> None:
    assert filled(np.arange(ROOM + BATCH)).depth > 1


def test_a_hot_set_below_many_rare_keys_stays() -> None:
    dice = np.random.default_rng(7)
    numbers = np.where(dice.random(6_000) < 0.8, dice.integers(0, 500, 6_000), dice.integers(0, 10**9, 6_000))
    tree = filled(numbers)
    assert tree.depth == 1  # 500 hot keys and 1,200 rare ones
    counts = dict(zip(*(column.to_pylist() for column in tree.flush().columns), strict=True))
    assert sum(counts.values()) == len(numbers)

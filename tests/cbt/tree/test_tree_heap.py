"""What a large tree frees goes back to the system while it grows, not on request."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import CompressedBufferTree, kernel
from elfmesh.cbt.limits import TreeLimits


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    calls: list[bool] = []
    give_back = kernel.active.give_back
    monkeypatch.setattr(kernel.active, "give_back", lambda: calls.append(give_back()))
    return calls


def fill(tree: CompressedBufferTree, keys: int, batches: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(batches):
        tree.insert(pa.record_batch({"k": rng.integers(0, keys, 1 << 16)}))


def test_a_growing_tree_gives_memory_back_now_and_then(given_back: list[bool]) -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=TreeLimits(root_rows=1 << 16))
    fill(tree, 1 << 40, 16)
    assert 2 <= len(given_back) <= 8


def test_a_small_or_hot_tree_leaves_the_heap_alone(given_back: list[bool]) -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=TreeLimits(root_rows=1 << 16))
    fill(tree, 1_000, 40)
    tree.push_down()
    assert not given_back

"""Members below the root: how they split, push down and merge."""

from __future__ import annotations

import random
from typing import Any

from elfmesh.cbt import CompressedBufferTree, TreeLimits
from elfmesh.cbt.tree.node import BufferNode
from tests.cbt.trees import (
    check_blocks,
    check_counters,
    counts,
    insert_keys,
    tiny_tree,
    top_of,
)


def test_the_tree_splits_pushes_down_and_grows_several_levels(each_kernel: Any) -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 3000, 50):
        insert_keys(tree, [f"key{i % 1000}" for i in range(start, start + 50)])
    assert tree.depth > 3
    assert counts(tree) == {f"key{i}": 3 for i in range(1000)}
    rows = sum(block.count for block in check_blocks(tree.snapshot().sorted()))
    assert rows == 1000
    check_counters(tree)


def test_a_merge_without_new_keys_keeps_the_compressed_keys() -> None:
    limits = TreeLimits(root_rows=100, root_rows_max=100, pending_rows_min=10)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    insert_keys(tree, list(range(90)))
    tree.push_down()
    leaf: BufferNode = top_of(tree)
    assert leaf.base is not None
    keys = leaf.base._keys
    insert_keys(tree, list(range(90)))
    tree.push_down()
    assert leaf.base._keys is keys
    insert_keys(tree, list(range(91)))
    tree.push_down()
    assert leaf.base._keys is not keys
    assert counts(tree) == {i: 3 if i < 90 else 1 for i in range(91)}


def test_many_tiny_pushes_keep_few_runs_and_the_answer() -> None:
    limits = TreeLimits(runs_max=8)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    insert_keys(tree, list(range(10_000)))
    tree.push_down()
    for number in range(1_000):
        insert_keys(tree, [number])
        tree.push_down()
        assert len(top_of(tree).runs) <= 8
    assert counts(tree) == {i: 2 if i < 1_000 else 1 for i in range(10_000)}


def test_long_keys_pass_thresholds_by_their_bytes() -> None:
    limits = TreeLimits(root_bytes_max=1 << 18, root_bits=4, leaf_bytes_max=1 << 16, buffer_bytes_max=1 << 16)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    rng = random.Random(1)
    keys = [rng.randbytes(4_000).hex() for _ in range(120)]
    for key in [*keys, *keys]:
        insert_keys(tree, [key])
        assert tree.open_bytes < 1 << 19
    assert top_of(tree).children
    assert counts(tree) == dict.fromkeys(keys, 2)
    assert max(leaf.base.raw_bytes for leaf in top_of(tree).leaves() if leaf.base) <= 1 << 17

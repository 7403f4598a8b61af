"""The root and its members: when the tree pushes rows down, and which rows an emptied tree keeps."""

from __future__ import annotations

from elfmesh.cbt import CompressedBufferTree, TreeLimits, kernel
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel import numpy_twin
from tests.cbt.trees import (
    counts,
    hot_of,
    insert_keys,
    tiny_tree,
)


def test_inserts_are_deferred_until_the_buffer_is_full() -> None:
    limits = TreeLimits(root_rows=100, root_rows_max=100)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    insert_keys(tree, list(range(100)))
    assert (tree.depth, tree.rows) == (1, 100)
    insert_keys(tree, list(range(100, 120)))
    assert tree.depth > 1
    assert hot_of(tree).rows == 0


def test_a_hot_set_stays_in_the_root() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for _ in range(50):
        insert_keys(tree, list(range(16)))
    assert (tree.depth, tree.rows) == (1, 16)
    assert counts(tree) == dict.fromkeys(range(16), 50)


def test_the_root_grows_while_that_pays_and_shrinks_again() -> None:
    limits = TreeLimits(root_rows=100, root_rows_max=400)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    for start in range(0, 300, 10):
        insert_keys(tree, [*range(start, start + 10), *range(start + 1)])
    assert (tree.depth, tree.rows) == (1, 300)  # most keys were there already
    insert_keys(tree, list(range(1000, 1200)))
    assert tree.depth > 1  # but no further than it may
    for start in range(2000, 4000, 100):
        insert_keys(tree, list(range(start, start + 100)))
        assert hot_of(tree).rows <= 500
    for start in range(5000, 6000, 10):
        insert_keys(tree, list(range(start, start + 10)))
        assert hot_of(tree).rows <= 110  # and it is small again where keys do not come back
    assert sum(counts(tree).values()) == 300 + sum(range(1, 301, 10)) + 200 + 2000 + 1000


def test_an_emptied_tree_keeps_a_small_root_until_its_memory_is_needed() -> None:
    budget = MemoryBudget(1 << 20)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, budget=budget)
    insert_keys(tree, [f"key{i}" for i in range(2000)])
    root, held = hot_of(tree), tree.nbytes
    tree.empty()
    assert tree.flush().num_rows == tree.rows == 0
    # What is kept is counted; the twin's keys are Python objects, and go.
    assert tree.nbytes == budget.nbytes > held // (16 if kernel.active is numpy_twin else 2)
    insert_keys(tree, ["b", "b"])
    assert hot_of(tree) is root
    assert counts(tree) == {"b": 2}
    tree.empty()
    insert_keys(tree, [1, 2, 2])  # keys of another type: no root of strings will do
    assert hot_of(tree) is not root
    assert counts(tree) == {1: 1, 2: 2}
    tree.empty()
    tree.release(1, root=True, spill=False)
    assert tree.nbytes == budget.nbytes < 4096

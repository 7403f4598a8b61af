"""How the tree grows, splits and defers, what it gives, and what it refuses."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.cbt import CompressedBufferTree, TreeLimits, kernel
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.tree.node import BufferNode
from elfmesh.errors import DataError, ProtocolError
from tests.cbt.trees import (
    PLAN,
    check_blocks,
    check_counters,
    content,
    counts,
    hot_of,
    insert_keys,
    tiny_tree,
    to_batch,
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


def test_a_batch_larger_than_all_limits_goes_in_at_once() -> None:
    limits = TreeLimits(root_rows=1000, root_rows_max=1000, leaf_rows_max=2000)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, limits=limits)
    insert_keys(tree, [f"key{i % 70_000}" for i in range(140_000)])
    assert counts(tree) == {f"key{i}": 2 for i in range(70_000)}


def test_no_keys_are_one_global_group(each_kernel: Any) -> None:
    tree = tiny_tree([], {"n": ("count", None), "s": ("sum", "v")})
    assert tree.flush().num_rows == 0
    for _ in range(30):
        tree.insert(pa.record_batch({"v": [1, None, 2]}))
    tree.push_down()
    tree.insert(pa.record_batch({"v": [5]}))
    assert tree.flush().to_pylist() == [{"n": 91, "s": 95}]


def test_no_aggregates_are_a_set_of_keys() -> None:
    tree = tiny_tree(["k"], {})
    for start in range(100):
        insert_keys(tree, [start % 50, start % 7])
    assert sorted(tree.flush()["k"].to_pylist()) == list(range(50))


def test_aggregates_of_two_columns() -> None:
    tree = tiny_tree(["k"], {"v": ("last", ("v", "at"))})
    for at in (3, 9, 5):
        tree.insert(pa.record_batch({"k": list(range(40)), "v": [f"at {at}"] * 40, "at": [at] * 40}))
    assert content(tree.flush(), 1) == {(k,): ("at 9",) for k in range(40)}


def test_wide_sums_of_one_leaf_widen_the_whole_column() -> None:
    tree = tiny_tree(["k"], {"s": ("sum", "v")})
    tree.insert(pa.record_batch({"k": [*range(100), 5], "v": [2**62] * 100 + [2**62]}))
    tree.push_down()
    table = tree.flush()
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    assert dict(zip(*(column.to_pylist() for column in table.columns), strict=True))[5] == 2**63


def test_a_snapshot_stays_what_it_was() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(200)))
    insert_keys(tree, [1, 2])
    snapshot = tree.snapshot()
    for _ in range(5):
        insert_keys(tree, list(range(300)))
    tree.empty()
    for _ in range(2):
        rows = list(snapshot.rows())
        assert sum(block.count for block in rows) == 200
        assert sum(int(block.states[0].parts["rows"].sum()) for block in rows) == 202
    assert snapshot.rows_max >= 200


def test_reading_gives_one_leaf_at_a_time() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(2000)))
    tree.push_down()
    sizes = [block.count for block in tree.snapshot().sorted()]
    assert len(sizes) > 50
    assert max(sizes) < 100


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


def test_flush_of_an_empty_tree_has_the_columns() -> None:
    table = tiny_tree().flush()
    assert table.column_names == ["k", "j", *PLAN]
    assert table.num_rows == 0
    tiny = tiny_tree()
    tiny.insert(to_batch([]))
    assert tiny.partial().num_rows == 0
    assert list(tiny.snapshot().sorted()) == []


@pytest.mark.parametrize(
    ("keys", "aggregates", "message"),
    [
        (["k"], {"k": ("count", None)}, "used twice"),
        (["k", "k"], {}, "used twice"),
        ([], {}, "a key or an aggregate"),
        (["k"], {"x": ("median", "v")}, "unknown kind 'median'"),
        (["k"], {"x": ("sum", None)}, "needs an input"),
        (["k"], {"x": ("sum", ("a", "b"))}, "needs 1 input column"),
        (["k"], {"x": ("first", "a")}, "needs 2 input columns"),
    ],
)
def test_wrong_plans_are_refused(keys: list[str], aggregates: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompressedBufferTree(keys, aggregates)


def test_wrong_limits_and_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        TreeLimits(leaf_rows_max=0)
    with pytest.raises(ValueError, match="positive"):
        TreeLimits(pending_share=0.0)
    with pytest.raises(ValueError, match="4, 8, 12 or 16"):
        TreeLimits(root_bits=5)
    tree = tiny_tree(["k"], {"s": ("sum", "v")})
    with pytest.raises(ValueError, match="no column 'v'"):
        tree.insert(pa.record_batch({"k": [1]}))
    with pytest.raises(DataError, match="'s' is over string"):
        tree.insert(pa.record_batch({"k": [1], "v": ["x"]}))
    with pytest.raises(ProtocolError, match="not a table of partial"):
        tree.insert_partial(pa.table({"k": [1]}))
    with pytest.raises(ValueError, match="do not belong"):
        tree.insert_partial(tiny_tree().partial())


def test_an_emptied_tree_keeps_a_small_root_until_somebody_needs_its_memory() -> None:
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

"""How the tree grows, splits and defers, what it gives, and what it refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.cbt import CompressedBufferTree, TreeLimits
from elfmesh.errors import DataError, ProtocolError
from tests.cbt.trees import (
    PLAN,
    content,
    counts,
    insert_keys,
    tiny_tree,
    to_batch,
)


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


def test_flush_of_an_empty_tree_has_the_columns() -> None:
    table = tiny_tree().flush()
    assert table.column_names == ["k", "j", *PLAN]
    assert table.num_rows == 0
    tiny = tiny_tree()
    tiny.insert(to_batch([]))
    assert tiny.partial().num_rows == 0
    assert list(tiny.snapshot().sorted()) == []


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

"""Keys of the tree: hostile ones, equal hashes, every type, changes of type, and keys that are too long."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import TreeLimits, TypeConflict, kernel
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.cbt.keys import KeyTooLong
from elfmesh.cbt.limits import PLACE_BITS_MAX
from tests.cbt.stores import MemoryStore
from tests.cbt.trees import (
    TINY,
    check_blocks,
    check_counters,
    content,
    counts,
    insert_keys,
    tiny_tree,
    top_of,
)

LONGEST = "x" * 65_533
HOSTILE = [
    "",
    "\0",
    "\0\0",
    "a",
    "a\0",
    "\ud7ff",
    "é",
    "e\u0301",
    LONGEST + "x",
    LONGEST + "y",
    None,
    " ",
    "NULL",
]


def test_hostile_keys_stay_apart(each_kernel: Any) -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for times, key in enumerate(HOSTILE, 1):
        for _ in range(times):
            tree.insert(pa.record_batch({"k": pa.array([key], pa.string())}))
    tree.push_down()
    assert content(tree.flush(), 1) == {(key,): (times,) for times, key in enumerate(HOSTILE, 1)}


def forced_hash(monkeypatch: pytest.MonkeyPatch, of_keys: Callable[[Keys], np.ndarray]) -> None:
    """Place keys by another hash: of the twin, whose functions all use the one of this name."""
    monkeypatch.setattr(kernel, "active", numpy_twin)
    for module in (numpy_twin, numpy_twin.order, numpy_twin.runs):
        monkeypatch.setattr(module, "hash_keys", of_keys)


def test_equal_hashes_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    forced_hash(monkeypatch, lambda keys: np.full(len(keys), 0x1234567890ABCDEF, np.uint64))
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 600, 20):
        insert_keys(tree, [f"key{i % 200}" for i in range(start, start + 20)])
    assert counts(tree) == {f"key{i}": 3 for i in range(200)}
    leaves = [leaf for leaf in top_of(tree).leaves() if leaf.base or leaf.runs]
    assert [leaf.bits for leaf in leaves] == [PLACE_BITS_MAX]
    assert sum(block.count for block in check_blocks(tree.snapshot().sorted())) == 200


def test_merging_keys_of_equal_hashes_stays_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    forced_hash(monkeypatch, lambda keys: np.full(len(keys), 7, np.uint64))
    merged = []
    merge = numpy_twin.merge_runs

    def counting(runs: Any) -> Any:
        merged.append(sum(run.rows for run in runs))
        return merge(runs)

    monkeypatch.setattr(numpy_twin, "merge_runs", counting)
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 4000, 20):
        insert_keys(tree, [f"key{i}" for i in range(start, start + 20)])
    assert len(counts(tree)) == 4000
    # Each row is merged a few times per doubling of the leaf, not once per push.
    assert sum(merged) < 4000 * 12


def test_two_hash_values_split_once_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def parity(keys: Keys) -> np.ndarray:
        odd = keys.data[keys.offsets[1:] - 1].astype(np.uint64) % np.uint64(2)
        top_bit: np.ndarray = odd << np.uint64(63)
        return top_bit

    forced_hash(monkeypatch, parity)
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 300, 30):
        insert_keys(tree, list(range(start, start + 30)))
    assert tree.flush().num_rows == 300
    assert len([leaf for leaf in top_of(tree).leaves() if leaf.base or leaf.runs]) == 2


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([True, False, None, True]),
        pa.array([1, 2, None, 1]),
        pa.array([math.nan, 0.0, None, math.nan]),
        pa.array([0.0, 1.0, None, -0.0]),
        pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("1.5")], pa.decimal128(9, 2)),
        pa.array([dt.date(2000, 1, 1), dt.date(1900, 1, 1), None, dt.date(2000, 1, 1)]),
        pa.array([1, 2, None, 1], pa.timestamp("us", tz="UTC")),
        pa.array([b"\xff", b"", None, b"\xff"]),
        pa.array(["a", "", None, "a"], pa.large_string()),
        pa.array(["a", "", None, "a"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_keys_of_any_type_group_through_compressed_buffers(keys: pa.Array) -> None:
    tree = tiny_tree(["k"], {"n": ("count", None), "top": ("max", "k")})
    tree.insert(pa.record_batch({"k": keys}))
    tree.push_down()
    tree.insert(pa.record_batch({"k": keys}))
    table = tree.flush()
    assert sorted(table["n"].to_pylist()) == [2, 2, 4]
    assert table["k"].null_count == 1
    for key, top in zip(table["k"].to_pylist(), table["top"].to_pylist(), strict=True):
        assert key == top or (math.isnan(key) and math.isnan(top))


def test_types_promote_wherever_the_narrow_rows_already_are() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None), "s": ("sum", "v"), "m": ("max", "v")})
    big = 2**53
    tree.insert(pa.record_batch({"k": pa.nulls(1), "v": pa.nulls(1)}))
    tree.push_down()
    # Pairs of integers that are one float: they become one key when the column turns float.
    keys = [1, *(big + 4 * pair + one for pair in range(40) for one in (0, 1))]
    tree.insert(pa.record_batch({"k": keys, "v": [big + 1, *[1] * 80]}))
    tree.push_down()
    assert tree.depth > 2
    tree.insert(pa.record_batch({"k": [1.0, 0.5], "v": [0.25, 0.5]}))
    out = content(tree.flush(), 1)
    assert out[(None,)] == (1, None, None)
    assert out[(1.0,)] == (2, float(Fraction(big + 1) + Fraction(1, 4)), float(big + 1))
    assert all(out[(float(big + 4 * pair),)] == (2, 2.0, 1.0) for pair in range(40))
    assert len(out) == 43


CHANGES: dict[str, tuple[pa.Array, pa.Array]] = {
    "first null": (pa.array([f"k{i}" for i in range(90)]), pa.array(["k3", None])),
    "int to float": (pa.array(range(90)), pa.array([3.0, 0.5])),
    "null to text": (pa.nulls(3), pa.array(["a", None, "a"])),
    "wider decimal": (
        pa.array([Decimal(i) for i in range(90)], pa.decimal128(9, 0)),
        pa.array([Decimal(3)], pa.decimal128(30, 0)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["root", "below", "both", "disk"])
def test_a_change_of_the_form_of_keys_keeps_every_row(change: str, where: str, each_kernel: Any) -> None:
    before, after = CHANGES[change]
    budget = MemoryBudget(4_000, MemoryStore()) if where == "disk" else None
    limits = TreeLimits() if where == "root" else TINY
    tree = tiny_tree(["k"], {"n": ("count", None)}, limits=limits, budget=budget)
    tree.insert(pa.record_batch({"k": before}))
    if where == "both":
        tree.push_down()
        tree.insert(pa.record_batch({"k": before}))
    tree.insert(pa.record_batch({"k": after}))
    expected: dict[Any, int] = defaultdict(int)
    for value in [*before.to_pylist() * (2 if where == "both" else 1), *after.to_pylist()]:
        expected[value] += 1
    assert counts(tree) == expected
    check_counters(tree)


def test_a_conflict_names_column_and_types_and_changes_nothing() -> None:
    tree = tiny_tree(["k"], {"top": ("max", "v")})
    tree.insert(pa.record_batch({"k": ["a"], "v": [1]}))
    with pytest.raises(TypeConflict, match="'top' is int64 in one place and string in another"):
        tree.insert(pa.record_batch({"k": ["b"], "v": ["x"]}))
    with pytest.raises(TypeConflict, match="'k' is string in one place and int64 in another"):
        tree.insert(pa.record_batch({"k": [1], "v": [1]}))
    with pytest.raises(TypeConflict, match="'k' is string"):
        tree.check_types((pa.int64(), pa.int64()))
    assert content(tree.flush(), 1) == {("a",): (1,)}
    tree.empty()
    tree.insert(pa.record_batch({"k": [1], "v": ["x"]}))
    assert content(tree.flush(), 1) == {(1,): ("x",)}


def test_keys_that_are_too_long_are_named_and_change_nothing(each_kernel: Any) -> None:
    tree = tiny_tree(["k"], {"top": ("max", "v")})
    tree.insert(pa.record_batch({"k": pa.array([None], pa.string()), "v": pa.nulls(1)}))
    batch = pa.record_batch({"k": ["a", "x" * 65_535, "b", "y" * 70_000], "v": [1, 2, 3, 4]})
    with pytest.raises(KeyTooLong) as caught:
        tree.insert(batch)
    assert caught.value.rows.tolist() == [1, 3]
    assert tree.types == (pa.string(), pa.null())
    assert content(tree.flush(), 1) == {(None,): (None,)}


def test_a_null_that_would_make_a_key_too_long_is_named() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, ["x" * 65_535, "a"])
    with pytest.raises(KeyTooLong) as caught:
        insert_keys(tree, ["b", None, "c", None])
    assert caught.value.rows.tolist() == [1, 3]
    insert_keys(tree, ["b", "c"])
    assert counts(tree) == {"x" * 65_535: 1, "a": 1, "b": 1, "c": 1}

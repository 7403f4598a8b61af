from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elfmesh.cbt import CompressedBufferTree, TreeLimits, TypeConflict
from elfmesh.cbt.kernel import placement
from elfmesh.cbt.node import BufferNode
from elfmesh.cbt.tree import OPEN_BLOCKS_MAX
from elfmesh.errors import DataError, ProtocolError

TINY = TreeLimits(buffer_rows_max=24, leaf_rows_max=8, fanout_max=3, pending_rows_min=4)
PLAN = {
    "n": ("count", None),
    "seen": ("count", "v"),
    "total": ("sum", "v"),
    "least": ("min", "v"),
    "last": ("max", "t"),
}


def tiny_tree(keys: list[str] | None = None, plan: dict[str, Any] | None = None) -> CompressedBufferTree:
    return CompressedBufferTree(
        ["k", "j"] if keys is None else keys, PLAN if plan is None else plan, root_rows_max=16, limits=TINY
    )


Row = tuple[str | None, int | None, float | None, str | None]


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    types = {"k": pa.string(), "j": pa.int64(), "v": pa.float64(), "t": pa.string()}
    return pa.record_batch(
        {n: pa.array([row[i] for row in rows], t) for i, (n, t) in enumerate(types.items())}
    )


def model(rows: list[Row]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0], row[1]].append(row)
    out = {}
    for key, members in groups.items():
        values = [row[2] for row in members if row[2] is not None]
        texts = [row[3] for row in members if row[3] is not None]
        total = sum(map(Fraction, values), Fraction(0))
        out[key] = (
            len(members),
            len(values),
            total.numerator / total.denominator if values else None,
            min(values, default=None),
            max(texts, default=None),
        )
    return out


def content(table: pa.Table, keys: int = 2) -> dict[Any, tuple[Any, ...]]:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    out = {row[:keys]: row[keys:] for row in rows}
    assert len(out) == len(rows), "a key came out twice"
    return out


ROW = st.tuples(
    st.none() | st.sampled_from(["", "a", "b\0", "b\0\0", "é", "/x" * 40]) | st.integers(0, 60).map(str),
    st.none() | st.integers(0, 2),
    st.none() | st.floats(-1e9, 1e9).map(lambda value: value + 0.0),
    st.none() | st.text(max_size=3),
)


class TreeAgainstDict(RuleBasedStateMachine):
    """The tree, with buffers so small that it splits all the time, against a list of rows and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = tiny_tree()
        self.rows: list[Row] = []

    @rule(rows=st.lists(ROW, max_size=30))
    def insert(self, rows: list[Row]) -> None:
        self.tree.insert(to_batch(rows))
        self.rows += rows

    @rule(seed=st.integers(0, 10**6))
    def insert_many_keys(self, seed: int) -> None:
        rng = random.Random(seed)
        rows: list[Row] = [(f"key{rng.randrange(400)}", 1, float(rng.randrange(9)), None) for _ in range(60)]
        self.insert(rows=rows)

    @rule(rows=st.lists(ROW, max_size=10))
    def insert_partial_of_another_tree(self, rows: list[Row]) -> None:
        other = tiny_tree()
        other.insert(to_batch(rows))
        self.tree.insert_partial(other.partial())
        self.rows += rows

    @rule()
    def insert_own_partial(self) -> None:
        if len(self.rows) < 500:
            self.tree.insert_partial(self.tree.partial())
            self.rows += list(self.rows)

    @rule()
    def flush(self) -> None:
        assert content(self.tree.flush()) == model(self.rows)

    @rule()
    def push_down(self) -> None:
        self.tree.push_down()

    @precondition(lambda self: bool(self.rows))
    @rule()
    def empty(self) -> None:
        self.tree.empty()
        self.rows = []

    @rule(seed=st.integers(0, 10))
    def a_misfit_changes_nothing(self, seed: int) -> None:
        batch = to_batch([("misfit", 1, 1.0, "x")])
        place = seed % 2
        bad = batch.set_column(place * 2, "kv"[place], pa.array([True if place else dt.date(2000, 1, 1)]))
        if self.rows or place:
            with pytest.raises(DataError):
                self.tree.insert(bad)

    @invariant()
    def holds_at_least_its_keys(self) -> None:
        assert self.tree.rows >= len({row[:2] for row in self.rows})
        assert (self.tree.nbytes > 0) == bool(self.rows)


TestTreeAgainstDict = TreeAgainstDict.TestCase
TestTreeAgainstDict.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def check_structure(node: BufferNode, low: int, high: int, limits: TreeLimits) -> int:
    """Ranges cover, every leaf is equally deep, every key lies in its range. Gives the number of keys."""
    assert node.low == low or low == 0
    if not node.children:
        if node.base is None:
            return 0
        rows = node.base.unpack()
        hashes = placement.hash_rows(rows.keys, rows.count, limits.seed)
        assert all(low <= value < high for value in hashes.tolist())
        return rows.count
    assert node.base is None
    assert 1 <= len(node.children) <= limits.fanout_max
    assert len({child.depth for child in node.children}) == 1
    bounds = [low, *(child.low for child in node.children[1:]), high]
    assert bounds == sorted(bounds)
    return sum(
        check_structure(child, start, stop, limits)
        for child, (start, stop) in zip(node.children, itertools.pairwise(bounds), strict=True)
    )


def test_the_tree_splits_pushes_down_and_grows_several_levels() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 3000, 50):
        tree.insert(pa.record_batch({"k": [f"key{i % 1000}" for i in range(start, start + 50)]}))
    assert tree.depth > 3
    assert content(tree.flush(), 1) == {(f"key{i}",): (3,) for i in range(1000)}
    assert tree._root is not None
    assert check_structure(tree._root, 0, 2**64, TINY) == 1000
    assert tree.rows == 1000  # all pushed to leaves, each key once
    leaves = [leaf.base.rows for leaf in tree._root.leaves() if leaf.base]
    assert max(leaves) <= TINY.leaf_rows_max


def test_inserts_are_deferred_until_the_buffer_is_full() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, root_rows_max=100, limits=TINY)
    tree.insert(pa.record_batch({"k": list(range(40))}))
    assert (tree.depth, tree.open_bytes) == (1, tree.nbytes)
    tree.insert(pa.record_batch({"k": list(range(40, 120))}))
    assert tree.depth > 1
    assert tree.open_bytes == 0


def test_a_hot_set_stays_in_the_root() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, root_rows_max=100, limits=TINY)
    for _ in range(50):
        tree.insert(pa.record_batch({"k": list(range(40))}))
    assert (tree.depth, tree.rows <= 100 + 40) == (1, True)
    assert content(tree.flush(), 1) == {(i,): (50,) for i in range(40)}


@given(st.lists(ROW, max_size=120), st.data())
@settings(max_examples=60, deadline=None)
def test_same_rows_in_any_order_split_and_merge_shape_give_the_same(
    rows: list[Row], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    whole = CompressedBufferTree(["k", "j"], PLAN)
    whole.insert(to_batch(rows))
    trees = [tiny_tree() for _ in range(data.draw(st.integers(1, 4)))]
    place = 0
    while place < len(rows):
        size = data.draw(st.integers(1, 40))
        trees[data.draw(st.integers(0, len(trees) - 1))].insert(to_batch(shuffled[place : place + size]))
        place += size
    while len(trees) > 1:
        left = trees.pop(data.draw(st.integers(0, len(trees) - 1)))
        trees[data.draw(st.integers(0, len(trees) - 1))].insert_partial(left.partial())
    got, want = trees[0].flush(), whole.flush()
    assert content(got) == content(want) == model(rows)
    if rows:
        assert got.schema == want.schema


HOSTILE = [
    "",
    "\0",
    "\0\0",
    "a",
    "a\0",
    "\ud7ff",
    "é",
    "e\u0301",
    "x" * 65_534,
    "x" * 65_533 + "y",
    None,
    " ",
    "NULL",
]


def test_hostile_keys_stay_apart() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for times, key in enumerate(HOSTILE, 1):
        for _ in range(times):
            tree.insert(pa.record_batch({"k": pa.array([key], pa.string())}))
    tree.push_down()
    assert content(tree.flush(), 1) == {(key,): (times,) for times, key in enumerate(HOSTILE, 1)}


def test_equal_hashes_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "hash_rows", lambda keys, rows, seed: np.full(rows, 12345, np.uint64))
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 600, 20):
        tree.insert(pa.record_batch({"k": [f"key{i % 200}" for i in range(start, start + 20)]}))
    assert content(tree.flush(), 1) == {(f"key{i}",): (3,) for i in range(200)}


def test_two_hash_values_split_once_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def parity(keys: Any, rows: int, seed: int) -> np.ndarray:
        bits: np.ndarray = (keys[0].to_numpy() % 2).astype(np.uint64) << np.uint64(63)
        return bits

    monkeypatch.setattr(placement, "hash_rows", parity)
    tree = tiny_tree(["k"], {"n": ("count", None)})
    for start in range(0, 300, 30):
        tree.insert(pa.record_batch({"k": list(range(start, start + 30))}))
    assert tree.flush().num_rows == 300
    assert tree._root is not None
    assert len(list(tree._root.leaves())) == 2


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
    tree.flush()  # everything is in the bases of leaves now, most of which the next insert does not touch
    assert tree.depth > 2
    tree.insert(pa.record_batch({"k": [1.0, 0.5], "v": [0.25, 0.5]}))
    out = content(tree.flush(), 1)
    assert out[(None,)] == (1, None, None)
    assert out[(1.0,)] == (2, float(Fraction(big + 1) + Fraction(1, 4)), float(big + 1))
    assert all(out[(float(big + 4 * pair),)] == (2, 2.0, 1.0) for pair in range(40))
    assert len(out) == 43


def test_a_conflict_names_column_and_types_and_changes_nothing() -> None:
    tree = tiny_tree(["k"], {"top": ("max", "v")})
    tree.insert(pa.record_batch({"k": ["a"], "v": [1]}))
    with pytest.raises(TypeConflict, match="'top' is int64 in one place and string in another"):
        tree.insert(pa.record_batch({"k": ["b"], "v": ["x"]}))
    with pytest.raises(TypeConflict, match="'k' is string in one place and int64 in another"):
        tree.insert(pa.record_batch({"k": [1], "v": [1]}))
    assert content(tree.flush(), 1) == {("a",): (1,)}
    tree.empty()
    tree.insert(pa.record_batch({"k": [1], "v": ["x"]}))
    assert content(tree.flush(), 1) == {(1,): ("x",)}


def test_no_keys_are_one_global_group() -> None:
    tree = tiny_tree([], {"n": ("count", None), "s": ("sum", "v")})
    assert tree.flush().num_rows == 0
    for _ in range(30):
        tree.insert(pa.record_batch({"v": [1, None, 2]}))
    tree.push_down()
    assert tree.flush().to_pylist() == [{"n": 90, "s": 90}]


def test_no_aggregates_are_a_set_of_keys() -> None:
    tree = tiny_tree(["k"], {})
    for start in range(100):
        tree.insert(pa.record_batch({"k": [start % 50, start % 7]}))
    assert sorted(tree.flush()["k"].to_pylist()) == list(range(50))


def test_wide_sums_of_one_leaf_widen_the_whole_column() -> None:
    tree = tiny_tree(["k"], {"s": ("sum", "v")})
    tree.insert(pa.record_batch({"k": [*range(100), 5], "v": [2**62] * 100 + [2**62]}))
    tree.push_down()
    table = tree.flush()
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    assert dict(zip(*(column.to_pylist() for column in table.columns), strict=True))[5] == 2**63


def test_nbytes_covers_what_is_held_and_compression_pays() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    rng = random.Random(1)
    keys = pa.array([f"/shop/product/{rng.getrandbits(64):016x}" for _ in range(50_000)])
    tree.insert(pa.record_batch({"k": keys}))
    held = tree.nbytes
    assert held >= keys.nbytes + 8 * 50_000
    tree.push_down()
    # 64 random bits a key are held by no fewer bytes, however well the rest compresses.
    assert 8 * 50_000 < tree.nbytes < held / 3
    tree.empty()
    assert (tree.nbytes, tree.rows, tree.depth) == (0, 0, 1)


def test_many_tiny_inserts_keep_few_blocks_and_the_answer() -> None:
    tree = CompressedBufferTree(["k"], {"n": ("count", None)})
    tree.insert(pa.record_batch({"k": list(range(10_000))}))
    tree.push_down()
    tree.insert(pa.record_batch({"k": list(range(10_000))}))
    for number in range(1_000):
        tree.insert(pa.record_batch({"k": [number]}))
        assert len(tree._open) <= OPEN_BLOCKS_MAX
    assert content(tree.flush(), 1) == {(i,): (3 if i < 1_000 else 2,) for i in range(10_000)}


def test_long_keys_pass_thresholds_by_their_bytes() -> None:
    limits = TreeLimits(buffer_bytes_max=1 << 16, leaf_bytes_max=1 << 16)
    tree = CompressedBufferTree(["k"], {"n": ("count", None)}, root_bytes_max=1 << 18, limits=limits)
    rng = random.Random(1)
    keys = [rng.randbytes(4_000).hex() for _ in range(120)]
    for key in [*keys, *keys]:
        tree.insert(pa.record_batch({"k": [key]}))
    assert tree._root is not None
    assert tree._root.children
    assert sum(run.raw_bytes for run in tree._root.runs) <= 1 << 16
    assert content(tree.flush(), 1) == {(key,): (2,) for key in keys}
    assert max(leaf.base.raw_bytes for leaf in tree._root.leaves() if leaf.base) <= 1 << 16


def test_flush_of_an_empty_tree_has_the_columns() -> None:
    table = tiny_tree().flush()
    assert table.column_names == ["k", "j", *PLAN]
    assert table.num_rows == 0
    tiny = tiny_tree()
    tiny.insert(to_batch([]))
    assert tiny.partial().num_rows == 0


@pytest.mark.parametrize(
    ("keys", "aggregates", "message"),
    [
        (["k"], {"k": ("count", None)}, "used twice"),
        (["k", "k"], {}, "used twice"),
        ([], {}, "a key or an aggregate"),
        (["k"], {"x": ("median", "v")}, "unknown kind 'median'"),
        (["k"], {"x": ("sum", None)}, "needs an input"),
    ],
)
def test_wrong_plans_are_refused(keys: list[str], aggregates: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompressedBufferTree(keys, aggregates)


def test_wrong_limits_and_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        CompressedBufferTree(["k"], {}, root_rows_max=0)
    with pytest.raises(ValueError, match="positive"):
        TreeLimits(leaf_rows_max=0)
    with pytest.raises(ValueError, match="fan-out"):
        TreeLimits(fanout_max=1)
    tree = tiny_tree(["k"], {"s": ("sum", "v")})
    with pytest.raises(ValueError, match="no column 'v'"):
        tree.insert(pa.record_batch({"k": [1]}))
    with pytest.raises(DataError, match="'s' is over string"):
        tree.insert(pa.record_batch({"k": [1], "v": ["x"]}))
    with pytest.raises(ProtocolError, match="not a table of partial"):
        tree.insert_partial(pa.table({"k": [1]}))
    with pytest.raises(ValueError, match="do not belong"):
        tree.insert_partial(tiny_tree().partial())

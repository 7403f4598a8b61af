from __future__ import annotations

import datetime as dt
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elfmesh.cbt import CompressedBufferTree, TreeLimits, TypeConflict, kernel
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.hot import HotRoot
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.cbt.keys import KeyTooLong
from elfmesh.cbt.limits import PLACE_BITS_MAX
from elfmesh.cbt.node import BufferNode
from elfmesh.cbt.sorted_rows import SortedRows, to_rows
from elfmesh.errors import DataError, ProtocolError
from tests.cbt.stores import MemoryStore

TINY = TreeLimits(
    root_rows=16,
    root_rows_max=32,
    root_bits=4,
    buffer_rows_max=24,
    leaf_rows_max=4,
    pending_rows_min=4,
    runs_max=3,
)
PLAN = {
    "n": ("count", None),
    "seen": ("count", "v"),
    "total": ("sum", "v"),
    "least": ("min", "v"),
    "last": ("max", "t"),
}


def kernels() -> list[Any]:
    """All kernels there are: the twin, and the native one where it was built."""
    return [numpy_twin] if kernel.active is numpy_twin else [kernel.active, numpy_twin]


@pytest.fixture(params=kernels(), ids=lambda module: module.__name__.split(".")[-1])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernel, "active", request.param)
    return request.param


def tiny_tree(
    keys: list[str] | None = None, plan: dict[str, Any] | None = None, **options: Any
) -> CompressedBufferTree:
    options = {"limits": TINY, **options}
    return CompressedBufferTree(
        ["k", "j"] if keys is None else keys, PLAN if plan is None else plan, **options
    )


def top_of(tree: CompressedBufferTree) -> BufferNode:
    """The member below the root, which is there."""
    assert tree._body is not None
    assert tree._body._top is not None
    return tree._body._top


def hot_of(tree: CompressedBufferTree) -> HotRoot:
    """The root, which is there."""
    assert tree._body is not None
    assert tree._body._hot is not None
    return tree._body._hot


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


def counts(tree: CompressedBufferTree) -> dict[Any, int]:
    """Of a tree of one key and one count."""
    return {key: row[0] for (key,), row in content(tree.flush(), 1).items()}


def insert_keys(tree: CompressedBufferTree, keys: list[Any]) -> None:
    tree.insert(pa.record_batch({"k": keys}))


ROW = st.tuples(
    st.none() | st.sampled_from(["", "a", "b\0", "b\0\0", "é", "/x" * 40]) | st.integers(0, 60).map(str),
    st.none() | st.integers(0, 2),
    st.none() | st.floats(-1e9, 1e9).map(lambda value: value + 0.0),
    st.none() | st.text(max_size=3),
)


class TreeAgainstDict(RuleBasedStateMachine):
    """The tree, with buffers so small that it splits and spills all the time, against a list of rows."""

    kernel: Any = kernel.active

    def __init__(self) -> None:
        super().__init__()
        self._before, kernel.active = kernel.active, self.kernel
        self.store = MemoryStore()
        self.budget = MemoryBudget(20_000, self.store)
        self.tree = self.new_tree()
        self.rows: list[Row] = []

    def teardown(self) -> None:
        del self.tree
        kernel.active = self._before
        assert self.budget.nbytes == 0
        assert self.store.blobs == {}

    def new_tree(self) -> CompressedBufferTree:
        return tiny_tree(budget=self.budget)

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
        other = self.new_tree()
        other.insert(to_batch(rows))
        self.tree.insert_partial(other.partial())
        self.rows += rows

    @rule(bits=st.sampled_from([0, 4, 8]))
    def insert_own_blocks(self, bits: int) -> None:
        if len(self.rows) < 500:
            for block in list(self.tree.snapshot().sorted(bits)):
                self.tree.insert_sorted(block)
            self.rows += list(self.rows)

    @rule()
    def flush(self) -> None:
        assert content(self.tree.flush()) == model(self.rows)

    @rule(bits_min=st.sampled_from([0, 4, 8, 12]))
    def read_sorted(self, bits_min: int) -> None:
        found = {}
        for block in check_blocks(self.tree.snapshot().sorted(bits_min), bits_min):
            for row in zip(*(key.to_pylist() for key in to_rows(block).keys), strict=True):
                found[row] = block
        assert set(found) == {row[:2] for row in self.rows}

    @rule()
    def push_down(self) -> None:
        self.tree.push_down()

    @rule()
    def save_and_load(self) -> None:
        checkpoint = b"".join(self.tree.save())
        self.tree = self.new_tree()
        self.tree.load(checkpoint[start : start + 999] for start in range(0, len(checkpoint), 999))

    @rule()
    def the_store_refuses_for_a_while(self) -> None:
        self.store.refuses = not self.store.refuses

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
        assert self.budget.nbytes == self.tree.nbytes
        check_counters(self.tree)


class TwinTreeAgainstDict(TreeAgainstDict):
    kernel = numpy_twin


TestTreeAgainstDict = TreeAgainstDict.TestCase
TestTreeAgainstDict.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestTwinTreeAgainstDict = TwinTreeAgainstDict.TestCase
TestTwinTreeAgainstDict.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)


def check_blocks(blocks: Iterator[SortedRows], bits_min: int = 0) -> Iterator[SortedRows]:
    """Blocks are not empty, ascend without overlapping, and their keys lie and stand where they should."""
    end = 0
    for block in blocks:
        assert block.count > 0
        assert block.bits % 4 == 0
        assert block.bits >= bits_min
        start = block.prefix << (64 - block.bits)
        assert start >= end
        end = start + (1 << (64 - block.bits))
        keys = kernel.active.decode_run(block.run)
        hashes = kernel.active.hash_keys(keys).tolist()
        assert all(start <= value < end for value in hashes)
        data = keys.data.tobytes()
        texts = [data[a:b] for a, b in zip(keys.offsets, keys.offsets[1:], strict=False)]
        assert texts == sorted(set(texts))
        assert all(state.rows == block.count for state in block.states)
        yield block


def check_counters(tree: CompressedBufferTree) -> None:
    """What the tree says it holds is the sum over its members; leaves are not larger than allowed."""
    if tree._body is None or tree._body._top is None:
        return
    top, shared = tree._body._top, tree._body._shared
    members = list(top.members())
    buffers = [buffer for member in members for buffer in member._buffers()]
    assert shared.rows == sum(buffer.rows for buffer in buffers)
    assert shared.nbytes == sum(buffer.nbytes for buffer in buffers) + 300 * len(members)
    for member in members:
        assert member._pending_rows == sum(run.rows for run in member.runs)
        assert member._pending_bytes == sum(run.raw_bytes for run in member.runs)
        assert member.base is None or not member.children
        if member.base is not None and member.bits < PLACE_BITS_MAX:
            assert member.base.rows <= 2 * TINY.leaf_rows_max


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
    assert check_blocks(tree.snapshot().sorted())


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


def test_a_checkpoint_brings_back_rows_and_types() -> None:
    tree = tiny_tree()
    rng = random.Random(3)
    rows: list[Row] = [(f"k{rng.randrange(300)}", None, rng.random(), None) for _ in range(900)]
    for start in range(0, 900, 90):
        tree.insert(to_batch(rows[start : start + 90]))
    checkpoint = b"".join(tree.save())
    for limits in (TINY, TreeLimits(), TreeLimits(root_rows=50, leaf_rows_max=30)):
        again = tiny_tree(limits=limits)
        again.insert(to_batch(rows[:5]))
        again.load([checkpoint])
        assert content(again.flush()) == model(rows)
        assert again.types == tree.types
        again.insert(to_batch(rows))
        assert content(again.flush()) == model(rows * 2)
    empty = tiny_tree()
    again.load(tiny_tree().save())
    assert again.flush() == empty.flush()


def test_a_damaged_checkpoint_changes_nothing() -> None:
    tree = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(tree, list(range(500)))
    frames = list(tree.save())
    other = tiny_tree(["k"], {"n": ("count", None)})
    insert_keys(other, [1])
    flipped = bytearray(b"".join(frames))
    flipped[len(flipped) // 2] ^= 1
    damaged = [
        [],
        frames[:-1],
        frames[:1],
        frames[1:],
        [*frames[:2], *frames[3:]],
        [*frames, b"x"],
        [b"".join(frames)[:-1]],
        [bytes(flipped)],
        [b"\xff" * 100],
        list(tiny_tree(["j"], {"n": ("count", None)}).save()),
    ]
    for chunks in damaged:
        with pytest.raises(ProtocolError):
            other.load(chunks)
        assert counts(other) == {1: 1}


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

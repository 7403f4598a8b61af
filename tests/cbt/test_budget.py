from __future__ import annotations

import gc
import random
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.cbt import CompressedBufferTree, TreeLimits
from elfmesh.cbt.budget import MemoryBudget, NoLock
from elfmesh.cbt.tree.buffer import SPILL_BYTES_MIN, CompressedBuffer
from elfmesh.errors import StorageError
from tests.cbt.stores import MemoryStore
from tests.cbt.trees import top_of

LIMITS = TreeLimits(
    root_rows=500,
    root_rows_max=500,
    root_bits=4,
    leaf_rows_max=800,
    pending_rows_min=200,
    buffer_rows_max=400,
)
COUNT = {"n": ("count", None)}


def tree_of(budget: MemoryBudget, limits: TreeLimits = LIMITS) -> CompressedBufferTree:
    return CompressedBufferTree(["k"], COUNT, limits=limits, budget=budget)


def texts(numbers: range, salt: int = 0) -> list[str]:
    """Keys that do not compress well, so that a few thousand of them do not fit."""
    return [random.Random(number * 1000 + salt).randbytes(12).hex() for number in numbers]


def insert(tree: CompressedBufferTree, keys: list[str]) -> None:
    tree.insert(pa.record_batch({"k": keys}))


def counts(tree: CompressedBufferTree) -> Counter[str]:
    table = tree.flush()
    found = Counter(dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True)))
    assert len(found) == table.num_rows
    return found


def test_what_does_not_fit_goes_to_the_store_and_comes_back() -> None:
    store = MemoryStore()
    budget = MemoryBudget(60_000, store)
    tree = tree_of(budget)
    keys = texts(range(8_000))
    for start in range(0, 8_000, 400):
        insert(tree, keys[start : start + 400])
        assert tree.nbytes <= budget.limit_bytes
        assert not budget.over
    assert store.nbytes > 60_000
    insert(tree, keys[:1_000])
    assert counts(tree) == Counter(keys + keys[:1_000])
    assert budget.problem is None


def test_without_a_store_the_budget_gives_up_only_roots_and_reports_that_it_is_over() -> None:
    budget = MemoryBudget(60_000)
    tree = tree_of(budget, TreeLimits())
    keys = texts(range(8_000))
    insert(tree, keys[:1_000])
    insert(tree, keys[1_000:])
    assert tree.open_bytes == 0
    assert budget.over
    assert counts(tree) == Counter(keys)
    tree.empty()
    assert not budget.over


def test_cold_trees_give_up_their_memory_first() -> None:
    budget = MemoryBudget(100_000, MemoryStore())
    cold, warm, filling = (tree_of(budget, TreeLimits()) for _ in range(3))
    insert(warm, texts(range(500), 1))
    insert(cold, texts(range(500), 2))
    insert(warm, texts(range(500, 510), 1))
    held = warm.open_bytes
    for start in range(0, 2_700, 50):
        insert(filling, texts(range(start, start + 50), 3))
        if cold.open_bytes == 0:
            break
    assert cold.open_bytes == 0
    assert (warm.open_bytes, filling.open_bytes > 0) == (held, True)
    assert not any(buffer.is_spilled for buffer in buffers(cold))  # roots come before buffers
    assert sum(counts(cold).values()) == 500


def buffers(tree: CompressedBufferTree) -> list[CompressedBuffer]:
    if tree._body is None or tree._body._top is None:
        return []
    return [buffer for member in tree._body._top.members() for buffer in member._buffers()]


def test_a_store_that_refuses_loses_nothing_and_is_tried_again() -> None:
    store = MemoryStore()
    budget = MemoryBudget(60_000, store)
    tree = tree_of(budget)
    keys = texts(range(6_000))
    insert(tree, keys[:2_000])
    store.refuses = True
    for start in range(2_000, 6_000, 500):
        insert(tree, keys[start : start + 500])
    assert (budget.over, str(budget.problem)) == (True, "the disk is full")
    assert counts(tree) == Counter(keys)
    store.refuses = False
    budget.relieve()
    assert (budget.over, budget.problem) == (False, None)
    assert counts(tree) == Counter(keys)


@given(st.integers(0, 10**9), st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_a_store_that_fails_at_random_loses_nothing(seed: int, one_in: int) -> None:
    rng = random.Random(seed)
    store = MemoryStore(lambda: rng.randrange(one_in) == 0)
    budget = MemoryBudget(25_000, store)
    limits = replace(LIMITS, root_rows=200, root_rows_max=200, leaf_rows_max=150, buffer_rows_max=200)
    tree = tree_of(budget, limits)
    expected: Counter[str] = Counter()
    for _ in range(30):
        keys = [f"{number * 0x9E3779B97F4A7C15 % 2**64:x}" for number in rng.choices(range(2_500), k=150)]
        insert(tree, keys)  # whatever the store does
        expected.update(keys)
    store.fails = lambda: False
    assert counts(tree) == expected


def test_rows_that_a_store_cannot_read_are_not_given_as_if_they_were_none() -> None:
    store = MemoryStore()
    tree = tree_of(MemoryBudget(30_000, store))
    keys = texts(range(5_000))
    insert(tree, keys)
    store.loses = True
    with pytest.raises(StorageError):
        tree.flush()
    with pytest.raises(StorageError):
        list(tree.save())
    insert(tree, keys[:100])
    # A first null encodes all keys again, which cannot be done now: then it is not in, and the tree as it
    # was.
    with pytest.raises(StorageError):
        tree.insert(pa.record_batch({"k": pa.array([None], pa.string())}))
    store.loses = False
    assert counts(tree) == Counter(keys + keys[:100])


def test_blobs_and_bytes_of_a_tree_that_is_gone_are_given_back() -> None:
    store = MemoryStore()
    budget = MemoryBudget(30_000, store)
    kept, gone = tree_of(budget), tree_of(budget)
    insert(kept, texts(range(3_000)))
    insert(gone, texts(range(3_000), 1))
    snapshot = gone.snapshot()
    del gone
    gc.collect()
    assert sum(rows.count for rows in snapshot.rows()) == 3_000  # a snapshot keeps what it needs
    blobs = len(store.blobs)
    del snapshot
    gc.collect()
    assert len(store.blobs) < blobs
    assert budget.nbytes == kept.nbytes
    kept.empty()
    gc.collect()
    assert store.blobs == {}


def test_a_piece_is_written_once_and_again_only_after_a_merge() -> None:
    store = MemoryStore()
    budget = MemoryBudget(30_000, store)
    tree = tree_of(budget)
    keys = texts(range(5_000))
    insert(tree, keys)
    budget.relieve()
    puts = store.puts
    for _ in range(5):
        counts(tree)
        budget.relieve()
    assert store.puts == puts
    for start in range(0, 5_000, 100):
        insert(tree, keys[start : start + 100])
    # At most each of the pushed runs, and each leaf once per merge.
    assert store.puts - puts < 5 * len(buffers(tree)) + 200
    assert all(len(blob) >= SPILL_BYTES_MIN for blob in store.blobs.values())


def test_unchanged_keys_of_a_spilled_leaf_stay_where_they_are() -> None:
    store = MemoryStore()
    limits = TreeLimits(root_rows=600, root_rows_max=600, pending_rows_min=100, spilled_share=0.1)
    tree = CompressedBufferTree(["k"], COUNT, limits=limits, budget=MemoryBudget(20_000, store))
    keys = texts(range(1_500))
    insert(tree, keys)
    tree.push_down()
    leaf = top_of(tree)
    assert leaf.base is not None
    for buffer in buffers(tree):
        buffer.spill(store)
    blob = leaf.base._keys
    insert(tree, keys[:700])
    tree.push_down()
    assert leaf.base._keys is blob
    assert counts(tree) == Counter(keys + keys[:700])


def test_a_leaf_on_disk_waits_for_more_rows_before_it_is_merged() -> None:
    limits = TreeLimits(pending_rows_min=100, pending_share=0.1, spilled_share=1.0)
    merged = {}
    for spilled in (False, True):
        store = MemoryStore()
        tree = CompressedBufferTree(["k"], COUNT, limits=limits, budget=MemoryBudget(1 << 20, store))
        keys = texts(range(2_000))
        insert(tree, keys)
        tree.push_down()
        if spilled:
            for buffer in buffers(tree):
                buffer.spill(store)
        insert(tree, keys[:500])
        tree.push_down()
        merged[spilled] = not top_of(tree).runs
        assert counts(tree) == Counter(keys + keys[:500])
    assert merged == {False: True, True: False}


def test_a_tree_in_use_is_passed_over() -> None:
    budget = MemoryBudget(40_000, MemoryStore(), new_lock=threading.Lock)
    busy, other = tree_of(budget, TreeLimits()), tree_of(budget, TreeLimits())
    insert(busy, texts(range(300)))
    held = busy.open_bytes
    with busy._lock:  # another thread is inserting
        for start in range(0, 2_000, 200):
            insert(other, texts(range(start, start + 200), 1))
        assert busy.open_bytes == held
    insert(other, texts(range(2_000, 2_200), 1))
    budget.limit_bytes = 1
    budget.relieve()
    assert busy.open_bytes == other.open_bytes == 0
    assert len(counts(busy)) == 300
    assert len(counts(other)) == 2_200


def test_trees_of_several_threads_share_one_budget() -> None:
    store = MemoryStore()
    guard = threading.RLock()  # a blob may be dropped inside any call
    put, get, drop = store.put, store.get, store.drop

    def guarded(function: Any) -> Any:
        def call(argument: Any) -> Any:
            with guard:
                return function(argument)

        return call

    store.put, store.get, store.drop = guarded(put), guarded(get), guarded(drop)  # type: ignore[method-assign]  # of this one
    budget = MemoryBudget(150_000, store, new_lock=threading.Lock)
    trees = [tree_of(budget) for _ in range(3)]
    failures: list[BaseException] = []

    def work(tree: CompressedBufferTree, salt: int) -> None:
        try:
            for start in range(0, 4_000, 250):
                insert(tree, texts(range(start, start + 250), salt))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(tree, salt)) for salt, tree in enumerate(trees)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for salt, tree in enumerate(trees):
        assert counts(tree) == Counter(texts(range(4_000), salt))
    assert budget.nbytes == sum(tree.nbytes for tree in trees)
    budget.relieve()
    assert not budget.over


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        MemoryBudget(0)
    lock = NoLock()
    with lock:
        assert not lock.acquire(blocking=False)
        with pytest.raises(RuntimeError, match="from within"):
            lock.acquire()
    assert lock.acquire(blocking=False)

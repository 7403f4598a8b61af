"""The tree against plain Python, through any sequence of calls."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elfmesh.cbt import CompressedBufferTree, kernel
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel import numpy_twin
from elfmesh.cbt.sorted_rows import to_rows
from elfmesh.errors import DataError
from tests.cbt.stores import MemoryStore
from tests.cbt.trees import PLAN, ROW, Row, check_blocks, check_counters, content, model, tiny_tree, to_batch


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
                self.tree.insert_rows(to_rows(block))
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
